package operators_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/bellerophon-io/bellerophon/streams"
	"github.com/reactivex/rxgo/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Tests write events as
//
//	a@3    object a was applied, version 3      [3  a list starts
//	-a@4   it was deleted                       +a@3  the list holds a
//	a:x@5  another object of its name, uid x    ]4  the list ends
//	2>a@3  source 2 saw it                      #9  a bookmark
//	?3     the source is disconnected           =9  it is connected again
//	a@3(1 2)  it replaced versions 1 and 2      {3  a list starts that is a Reset
//	!e  an error
//
// and a schedule of batches as "a@1 | 5ms a@2 b@1 | 9ms", with times from its start.
var notation = regexp.MustCompile(`^(?:(\w)>)?(?:([-+]?)(\w+?)(?::(\w+))?@|([[\]{#?=]))(\d+)$`)

var podKind = schema.GroupKind{Kind: "Pod"}

func podKey(name string) streams.Key {
	return streams.Key{GroupKind: podKind, NamespacedName: podName(name)}
}

func podName(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "ns", Name: name}
}

// pod returns an object.
func pod(name, uid, version string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: name, UID: types.UID(uid), ResourceVersion: version,
	}}
}

// event parses an event, and sets its time to now.
func event(text string) streams.Event {
	part := notation.FindStringSubmatch(text)
	if part == nil {
		panic("no event: " + text)
	}
	source, sign, name, uid, mark, version := part[1], part[2], part[3], part[4], part[5], part[6]
	made := streams.Event{Source: source, ResourceVersion: version, Received: time.Now(), Key: streams.Key{GroupKind: podKind}}
	if source == "" {
		made.Source = "1"
	}
	if mark != "" {
		made.Type = map[string]streams.EventType{"[": streams.ListStart, "{": streams.ListStart, "]": streams.ListEnd, "#": streams.Bookmark,
			"?": streams.Disconnected, "=": streams.Connected}[mark]
		made.Reset = mark == "{"
		return made
	}
	if uid == "" {
		uid = name
	}
	made.Type = map[string]streams.EventType{"": streams.Applied, "-": streams.Deleted, "+": streams.Listed}[sign]
	made.Key, made.Object = podKey(name), pod(name, uid, version)
	return made
}

// written formats an event in the notation.
func written(event streams.Event) string {
	source := ""
	if event.Source != "1" {
		source = event.Source + ">"
	}
	mark := map[streams.EventType]string{
		streams.ListStart: "[", streams.ListEnd: "]", streams.Bookmark: "#",
		streams.Disconnected: "?", streams.Connected: "=", streams.Deleted: "-", streams.Listed: "+",
	}[event.Type]
	if event.Reset {
		mark = "{"
	}
	if event.Object == nil {
		return source + mark + event.ResourceVersion
	}
	name := event.Key.Name
	if uid := string(event.Object.GetUID()); uid != name {
		name += ":" + uid
	}
	text := source + mark + name + "@" + event.ResourceVersion
	if len(event.Coalesced) > 0 {
		var replaced []string
		for _, cause := range event.Coalesced {
			replaced = append(replaced, cause.ResourceVersion)
		}
		text += "(" + strings.Join(replaced, " ") + ")"
	}
	return text
}

// scheduled returns the stream of a schedule. The stream ends at the schedule's last time.
func scheduled(schedule string) streams.Stream[streams.Event] {
	return streams.Create(func(ctx context.Context, out streams.Sink[streams.Event]) {
		started := time.Now()
		for batch := range strings.SplitSeq(schedule, "|") {
			words := strings.Fields(batch)
			if len(words) > 0 {
				if at, err := time.ParseDuration(words[0]); err == nil {
					words = words[1:]
					if !wait(ctx, at-time.Since(started)) {
						return
					}
				}
			}
			var events []streams.Event
			for _, word := range words {
				if !strings.HasPrefix(word, "!") {
					events = append(events, event(word))
					continue
				}
				out.Send(events)
				out.Error(errors.New(word[1:]))
				events = nil
			}
			if len(events) > 0 && !out.Send(events) {
				return
			}
		}
	})
}

// log records what comes out of a stream, and when, in the notation of a schedule.
type log struct {
	mu      sync.Mutex
	started time.Time
	last    time.Time
	text    strings.Builder
}

func newLog() *log { return &log{started: time.Now()} }

// add records something that came now.
func (l *log) add(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); l.text.Len() == 0 || !now.Equal(l.last) {
		if l.text.Len() > 0 {
			l.text.WriteString(" | ")
		}
		l.text.WriteString(now.Sub(l.started).String())
		l.last = now
	}
	l.text.WriteString(" " + text)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// logged reads an observation to its end, and returns its log.
func logged[T any](items <-chan rxgo.Item, write func(T) string) string {
	log := newLog()
	for item := range items {
		values, err := streams.Values[T](item)
		for _, value := range values {
			log.add(write(value))
		}
		if err != nil {
			log.add("!" + err.Error())
		}
	}
	return log.String()
}

func plain[T any](value T) string { return fmt.Sprint(value) }
