package footprint

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// By default, Go collects garbage when the heap has doubled. An operator allocates much for each event
// and keeps little. So its heap doubles many times a second under load. While the program works,
// garbage may therefore take more than what lives, up to a bound. A small heap is collected as usual: that
// is cheap, and with more garbage what lives is spread over more pages, which a release cannot return.
const (
	usual    = 100                   // Go's default of GOGC: garbage in percent of what lives
	most     = 300                   // the largest GOGC that a collector sets
	garbage  = 32 << 20              // what garbage may take, unless more than that lives
	step     = 25                    // GOGC is a multiple of step, because each change stops all goroutines for a moment
	liveHeap = "/gc/heap/live:bytes" // marked by the last collection
)

// smallHeap is always collected at a release, and as usual at work. A larger heap is collected at a release
// if that takes a twentieth of the CPU time that the program has worked: a release takes two collections,
// and each takes 0.5 ms for a live megabyte.
const (
	smallHeap = 8 << 20
	share     = 0.05
	cost      = time.Millisecond // of two collections, for each megabyte
)

// collector sets the GOGC of a program that works, and collects the garbage of a program that is idle.
// It leaves GOGC as it is if the environment sets it. Only one goroutine may call its methods.
type collector struct {
	fixed   bool
	percent int
}

func newCollector() *collector {
	return &collector{fixed: os.Getenv("GOGC") != "", percent: usual}
}

// work lets garbage take more memory. It is called regularly while the program works, because what
// lives changes.
func (c *collector) work() { c.set(percentFor(live())) }

// rest returns garbage to the system and sets the usual GOGC. The runtime would keep the garbage until as much is
// allocated as lives, which may take an idle program for ever.
func (c *collector) rest(worked time.Duration) {
	c.set(usual)
	if !pays(live(), worked) {
		return
	}
	runtime.GC() // The first of two collections only marks what a sync.Pool holds.
	debug.FreeOSMemory()
}

// pays reports whether a heap is collected at a release.
func pays(live uint64, worked time.Duration) bool {
	return live <= smallHeap || float64(live)/(1<<20)*float64(cost) <= share*float64(worked)
}

func (c *collector) set(percent int) {
	if c.fixed || percent == c.percent {
		return
	}
	debug.SetGCPercent(percent)
	c.percent = percent
}

// percentFor returns the GOGC of a program that works while so many bytes live.
func percentFor(live uint64) int {
	if live <= smallHeap {
		return usual
	}
	return max(usual, int(min(most, 100*garbage/live))/step*step)
}

func live() uint64 {
	sample := []metrics.Sample{{Name: liveHeap}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// limitMemory makes Go collect sooner when the program's memory comes close to the limit of its
// container. Without it, the kernel kills a program whose garbage does not fit. The environment variables
// GOMEMLIMIT and AUTOMEMLIMIT take precedence.
func limitMemory() {
	_, _ = memlimit.Set() // An error leaves the memory without such a limit. The library logs it nowhere by default.
}
