"""Studies: the paper's and anyone's, what they say of the paper's claims, and the pages made from them."""
