"""Full load on all devices of one node, with the bits of every result checked."""
