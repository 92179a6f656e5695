"""What the tests made the network do: NC, KMNC, NBC, SNAC, TKNC, as mergeable sets of bits."""
