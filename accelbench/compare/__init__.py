"""Two runs side by side: which points became faster or slower, and what differs between the machines."""
