package operators_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
	"github.com/reactivex/rxgo/v2"
)

// stalled is a Debounce whose receiver does not read: the channel to the receiver is full.
type stalled struct {
	in    feed[streams.Event]
	items <-chan rxgo.Item
	flow  *operators.StageStats
}

func newStalled(t *testing.T, window time.Duration) stalled {
	t.Helper()
	s := stalled{in: newFeed[streams.Event](), flow: &operators.StageStats{}}
	s.items = operators.Debounce(s.in.stream(), operators.DebounceOptions{Window: window, Stats: s.flow}).Observe(t.Context())
	for i := 0; s.flow.Waiting.Load() == 0; i++ {
		s.in.send(event(fmt.Sprintf("filler%d@1", i)))
	}
	return s
}

// rest returns what comes out when the receiver reads again, to the end, without the fillers.
func (s stalled) rest() string {
	close(s.in)
	var rest []string
	for word := range strings.FieldsSeq(logged(s.items, written)) {
		if !strings.Contains(word, "filler") && word != "0s" {
			rest = append(rest, word)
		}
	}
	return strings.Join(rest, " ")
}

func TestWhileTheReceiverStallsTheLatestStateOfEachKeyIsKept(t *testing.T) {
	for name, test := range map[string]debounceTest{
		"states are coalesced":                   {"a@1 | b@2 | a@3 | b@4 | a@5", "a@5(1 3) b@4(2)"},
		"deletions are not":                      {"a@1 | -a@2 | a:x@3 | a:x@4 | -a:x@5 | a:y@6", "-a@2(1) -a:x@5(3 4) a:y@6"},
		"bookmarks are":                          {"#1 | a@2 | #3 | a@4 | #5 | 2>#6", "a@4(2) #5 2>#6"},
		"lists are replaced":                     {"a@1 | [1 | +a@1 | +b@1 | ]2 | a@3 | -b@4 | [4 | +a@3 | ]5 | a@6", "-b@4 [4 +a@3 ]5 a@6"},
		"errors stay in order":                   {"a@1 | !e1 | a@2 | !e2 | b@3 | !e3", "a@2(1) !e1 !e2 b@3 !e3"},
		"a list does not replace another source": {"2>a@1 | [2 | 2>a@3 | ]4", "2>a@3(1) [2 ]4"},
	} {
		for _, window := range []time.Duration{0, 20 * time.Millisecond} {
			bubble(t, fmt.Sprintf("%s, window %v", name, window), func(t *testing.T) {
				s := newStalled(t, window)
				for item := range scheduled(test.in).Observe(t.Context()) {
					if item.E != nil {
						s.in <- item.E
					} else {
						s.in.send(item.V.([]streams.Event)...)
					}
				}
				pass(time.Hour)
				if got := s.rest(); got != test.out {
					t.Errorf("\nof   %s\ncame %s\nwant %s", test.in, got, test.out)
				}
			})
		}
	}
}

func TestWhileTheReceiverStallsMemoryIsBoundedByTheNumberOfObjects(t *testing.T) {
	for name, round := range map[string]func(i int) []string{
		"changes":               func(i int) []string { return []string{fmt.Sprintf("k%d@%d", i%10, i)} },
		"changes and bookmarks": func(i int) []string { return []string{fmt.Sprintf("k%d@%d", i%10, i), fmt.Sprintf("#%d", i)} },
		"changes and lists": func(i int) []string {
			return []string{fmt.Sprintf("k%d@%d", i%10, i), fmt.Sprintf("[%d", i), fmt.Sprintf("+k1@%d", i), fmt.Sprintf("]%d", i)}
		},
		"two sources": func(i int) []string {
			return []string{fmt.Sprintf("%d>k%d@%d", i%2, i%5, i), fmt.Sprintf("%d>#%d", i%2, i)}
		},
	} {
		bubble(t, name, func(t *testing.T) {
			s := newStalled(t, 20*time.Millisecond)
			before := s.flow.Waiting.Load()
			for i := 1; i <= 3000; i++ {
				var batch []streams.Event
				for _, text := range round(i) {
					batch = append(batch, event(text))
				}
				s.in.send(batch...)
				if i%7 == 0 {
					pass(13 * time.Millisecond)
				}
				// The bound is 10 objects, and a list or a bookmark of each source.
				if waiting := s.flow.Waiting.Load() - before; waiting > 14 {
					t.Fatalf("%d events wait after %d rounds", waiting, i)
				}
			}
			synctest.Wait()
			rest := s.rest()
			if name == "changes and lists" {
				if want := "[3000 +k1@3000 ]3000"; !strings.HasSuffix(rest, want) {
					t.Errorf("got %s, want %s at the end", rest, want)
				}
				return
			}
			for i := 2991; i <= 3000; i++ {
				if text := "@" + fmt.Sprint(i); !strings.Contains(rest, text) {
					t.Errorf("the last state of a key, %s, is missing in %s", text, rest)
				}
			}
		})
	}
}
