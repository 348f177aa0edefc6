package footprint

import "runtime"

// perSample is the number of allocated bytes for each sample of the memory profile, once ProfileMemory was called. Until
// then nothing is sampled: what samples take would stay in the memory of a program that serves no profile.
var perSample = sampleNothing() // Here, so that initializing types takes no samples either.

func sampleNothing() (before int) {
	before, runtime.MemProfileRate = runtime.MemProfileRate, 0
	return before
}

// ProfileMemory begins to sample allocations for the memory profile, which lacks what was allocated before.
// The main function of a program that serves profiles calls it, once and early.
func ProfileMemory() { runtime.MemProfileRate = perSample }
