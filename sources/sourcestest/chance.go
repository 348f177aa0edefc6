package sourcestest

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// DefaultRates returns the default rates of a seed: 0.05 for each fault from Duplicate to
// LoseAnswer. Drop is left out, because it alone loses events for good. Hang, Silence, Answer and
// Fail are left out, too. A client overcomes Hang and Silence only with deadlines of its own.
func DefaultRates() map[Action]float64 {
	rates := map[Action]float64{}
	for action := Duplicate; action <= LoseAnswer; action++ {
		rates[action] = 0.05
	}
	return rates
}

func checkRates(rates map[Action]float64) error {
	var ofEvents, ofRequests float64
	for action, rate := range rates {
		switch {
		case !action.known():
			return fmt.Errorf("sourcestest: Rates has %v; give constants of the package, such as Cut", action)
		case math.IsNaN(rate) || rate < 0 || rate > 1:
			return fmt.Errorf("sourcestest: the rate of %v is %v; allowed is 0 to 1", action, rate)
		case action.ofEvent():
			ofEvents += rate
		default:
			ofRequests += rate
		}
	}
	const rounding = 1e-9
	if ofEvents > 1+rounding || ofRequests > 1+rounding {
		return fmt.Errorf("sourcestest: the rates add up to %v for events and %v for requests; allowed is up to 1 each", ofEvents, ofRequests)
	}
	return nil
}

// occasion is a possible occasion of a fault: an event about to be sent, or a request that has
// come.
type occasion struct {
	resource string
	key      types.NamespacedName
	event    watch.EventType // if it is an event
	verb     string          // if it is a request
	stream   string          // names the sequence that number counts, for chance
	number   int
}

func (f Fault) matches(o occasion) bool {
	if f.Action.ofEvent() != (o.event != "") || o.event == watch.Bookmark && f.Type != watch.Bookmark {
		return false
	}
	return (f.Type == "" || f.Type == o.event) && (f.Verb == "" || f.Verb == o.verb) &&
		(f.Resource == "" || f.Resource == o.resource) &&
		(f.Namespace == "" || f.Namespace == o.key.Namespace) && (f.Name == "" || f.Name == o.key.Name)
}

// scripted is a fault of the script, with the numbers of its matches and occurrences so far.
type scripted struct {
	Fault
	matched, happened int
}

// due counts an occasion and reports whether the fault is due on it.
func (s *scripted) due(o occasion) bool {
	if !s.matches(o) {
		return false
	}
	s.matched++
	return s.matched >= s.Nth && (s.Times == Always || s.happened < s.Times)
}

// nonsense holds the bodies of the Answers that the seed chooses.
var nonsense = []string{
	"", "{}", "null", "<html><body>Sign in</body></html>",
	`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success"}`,
}

// chance chooses faults by the seed.
type chance struct {
	seed    uint64
	rates   map[Action]float64
	maxWait time.Duration
}

// of draws the fault of an occasion. The result depends only on the seed and the occasion, so
// goroutines may run in any order.
func (c *chance) of(o occasion) (Fault, bool) {
	if o.event == watch.Bookmark {
		return Fault{}, false
	}
	name := fnv.New64a()
	fmt.Fprintf(name, "%s#%d", o.stream, o.number)
	random := rand.New(rand.NewPCG(c.seed, name.Sum64()))
	drawn := random.Float64()
	for action := Drop; action <= Fail; action++ {
		if action.ofEvent() != (o.event != "") {
			continue
		}
		if drawn -= c.rates[action]; drawn >= 0 {
			continue
		}
		fault := Fault{Action: action, For: 1 + time.Duration(random.Int64N(int64(c.maxWait)))}
		switch action {
		case Refuse:
			codes := []int{http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusServiceUnavailable}
			if o.verb == "watch" {
				codes = append(codes, http.StatusGone)
			}
			fault.Code = codes[random.IntN(len(codes))]
			if fault.Code == http.StatusTooManyRequests {
				fault.RetryAfter = time.Second
			}
		case Fail:
			fault.Code = http.StatusInternalServerError
		case Answer:
			fault.Body = nonsense[random.IntN(len(nonsense))]
			fault.ContentType = runtime.ContentTypeJSON
		}
		return fault, true
	}
	return Fault{}, false
}
