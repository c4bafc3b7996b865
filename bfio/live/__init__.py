"""Live serving: an emulated fleet of workers behind HTTP, and the router in front of workers."""
