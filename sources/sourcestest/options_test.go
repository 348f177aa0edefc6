package sourcestest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestOptionsThatMakeNoSenseAreRefusedByName(t *testing.T) {
	scheme := runtime.NewScheme()
	script := func(fault sourcestest.Fault) sourcestest.Options {
		return sourcestest.Options{Scheme: scheme, Script: []sourcestest.Fault{{Action: sourcestest.Drop}, fault}}
	}
	rates := func(rates map[sourcestest.Action]float64) sourcestest.Options {
		return sourcestest.Options{Scheme: scheme, Rates: rates}
	}
	for want, options := range map[string]sourcestest.Options{
		"Scheme is required":                                 {},
		"History is -1; allowed is 1 and above":              {Scheme: scheme, History: -1},
		"Bookmarks is 1ns; allowed is 1ms and above":         {Scheme: scheme, Bookmarks: 1},
		"GarbageCollection is 1ns; allowed is 1ms and above": {Scheme: scheme, GarbageCollection: 1},
		"MaxWait is -1s; allowed is 1ms and above":           {Scheme: scheme, MaxWait: -time.Second},
		"Kinds has":            {Scheme: scheme, Kinds: []sourcestest.Kind{{Resource: "heroes"}}},
		"Rates has Action(99)": rates(map[sourcestest.Action]float64{99: 0.1}),
		"the rate of Cut is 1.5; allowed is 0 to 1":                        rates(map[sourcestest.Action]float64{sourcestest.Cut: 1.5}),
		"allowed is up to 1 each":                                          rates(map[sourcestest.Action]float64{sourcestest.Cut: 0.6, sourcestest.End: 0.6}),
		"sourcestest: fault 2 of the script: Action(0): Action is unknown": script(sourcestest.Fault{}),
		`Cut: Verb is "watch", but this is a fault of events`:              script(sourcestest.Fault{Action: sourcestest.Cut, Verb: "watch"}),
		`Slow: Type is "ADDED", but this is a fault of requests`:           script(sourcestest.Fault{Action: sourcestest.Slow, Type: "ADDED"}),
		`Verb is "put"; allowed is one of`:                                 script(sourcestest.Fault{Action: sourcestest.Slow, Verb: "put"}),
		`Type is "added"; allowed is one of`:                               script(sourcestest.Fault{Action: sourcestest.Drop, Type: "added"}),
		"Nth is -1":                                                        script(sourcestest.Fault{Action: sourcestest.Drop, Nth: -1}),
		"Times is -2":                                                      script(sourcestest.Fault{Action: sourcestest.Drop, Times: -2}),
		"For is 1s; it is allowed for Delay, Reorder and Slow only":        script(sourcestest.Fault{Action: sourcestest.Drop, For: time.Second}),
		"Delay: WithinKey is allowed for Reorder only":                     script(sourcestest.Fault{Action: sourcestest.Delay, WithinKey: true}),
		"Expire: Code is allowed for Refuse and Fail only":                 script(sourcestest.Fault{Action: sourcestest.Expire, Code: 410}),
		"Fail: RetryAfter is allowed for Refuse only":                      script(sourcestest.Fault{Action: sourcestest.Fail, RetryAfter: time.Second}),
		"Fail: Code is 399; allowed is 400 to 599":                         script(sourcestest.Fault{Action: sourcestest.Fail, Code: 399}),
		"Hang: Body and ContentType are allowed for Answer only":           script(sourcestest.Fault{Action: sourcestest.Hang, Body: "{}"}),
		`Hang: Type is "ADDED", but this is a fault of requests`:           script(sourcestest.Fault{Action: sourcestest.Hang, Type: "ADDED"}),
		`Silence: Verb is "watch", but this is a fault of events`:          script(sourcestest.Fault{Action: sourcestest.Silence, Verb: "watch"}),
		"Bookmarks is 1s and NoBookmarks is set; set one of them":          {Scheme: scheme, Bookmarks: time.Second, NoBookmarks: true},
		"NoResourceVersions has /v1, Kind=Hero, which is not served":       {Scheme: scheme, NoResourceVersions: []schema.GroupVersionKind{{Version: "v1", Kind: "Hero"}}},
		"Code is 200; allowed is 400 to 599":                               script(sourcestest.Fault{Action: sourcestest.Refuse, Code: 200}),
		"RetryAfter is 1.5s; allowed are whole seconds":                    script(sourcestest.Fault{Action: sourcestest.Refuse, RetryAfter: 1500 * time.Millisecond}),
	} {
		if _, err := sourcestest.New(options); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New returned %v, want %q in it", err, want)
		}
	}
}
