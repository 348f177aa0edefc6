package footprint

import (
	"runtime"
	"testing"
)

func TestAllocationsAreSampledOnlyForAProgramThatServesProfiles(t *testing.T) {
	if runtime.MemProfileRate != 0 {
		t.Fatalf("a sample is taken every %d bytes, though no profile is served", runtime.MemProfileRate)
	}
	defer func() { runtime.MemProfileRate = 0 }()
	ProfileMemory()
	if want := 512 << 10; runtime.MemProfileRate != want { // The default of the runtime.
		t.Fatalf("a sample is taken every %d bytes, want %d", runtime.MemProfileRate, want)
	}
	held := make([][]byte, 100)
	for i := range held {
		held[i] = make([]byte, 1<<20)
	}
	runtime.GC() // Samples appear in the profile after the next collection.
	runtime.GC()
	if samples, _ := runtime.MemProfile(nil, true); samples == 0 {
		t.Fatal("100 MB were allocated, and the profile is empty")
	}
	runtime.KeepAlive(held)
}
