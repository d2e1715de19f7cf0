"""What tests share. Nothing of the product imports this."""
