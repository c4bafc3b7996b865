"""What is called proven, against enumeration, with coefficients up to the limits."""
