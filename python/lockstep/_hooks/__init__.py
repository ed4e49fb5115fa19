"""Where a training is listened to, one file for each thing. No hook writes a tensor, draws a number or communicates."""
