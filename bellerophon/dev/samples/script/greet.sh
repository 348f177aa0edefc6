#!/bin/sh
# Prints the greeting each second. It reads the file anew each time, so that a change needs no restart.
while true; do
	cat greeting.txt
	sleep 1
done
