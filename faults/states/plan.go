package states

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// mode is the kind of a walk.
type mode string

const (
	steady   mode = "steady"   // each spec is reached before the next change
	hasty    mode = "hasty"    // the second change follows the first at once
	replaced mode = "replaced" // the object is deleted and created with another spec at once
	named    mode = "named"    // an object with an unusual name
)

// walk is a sequence of specs of one object.
type walk struct {
	mode  mode
	stops []state
	name  string // of the object
}

// String returns the mode and the stops, which identify the walk.
func (w walk) String() string {
	var stops []string
	for _, stop := range w.stops {
		stops = append(stops, stop.String())
	}
	if w.mode == named {
		stops = append(stops, fmt.Sprintf("metadata.name=%q", w.name))
	}
	return string(w.mode) + ": " + strings.Join(stops, " → ")
}

// usual is the name of most objects.
const usual = "subject"

// planOf returns all walks. Each value of a field comes first, with a walk from the base and back. Then
// come the other modes, changes between the first values, unusual names, and some changes of two fields. The rest of the changes of two
// fields follows, and at last all changes of one field. Their order is shuffled, and always the same.
func planOf(fields []*field, names []string) (walks []walk) {
	base := state{}
	with := func(f *field, v value) state { return state{[]change{{f, v}}} }
	add := func(how mode, stops ...state) { walks = append(walks, walk{how, stops, usual}) }

	visits := make([][]walk, len(fields))
	for i, f := range fields {
		for _, v := range f.values {
			visits[i] = append(visits[i], walk{steady, []state{base, with(f, v), base}, usual})
		}
	}
	walks = append(walks, interleaved(visits)...)
	for _, f := range fields {
		for _, v := range f.values[:min(2, len(f.values))] {
			add(hasty, base, with(f, v), base)
			add(replaced, base, with(f, v))
		}
	}
	for _, f := range fields { // Neighbours are similar, and a comparison may take them for equal.
		for i := 1; i < min(6, len(f.values)); i++ {
			add(steady, with(f, f.values[i-1]), with(f, f.values[i]), with(f, f.values[i-1]))
		}
	}
	for _, name := range names {
		walks = append(walks, walk{named, []state{base}, name})
	}
	for i, f := range fields {
		for k, g := range fields {
			for at, v := range f.values[:min(4, len(f.values))] {
				if i != k && len(g.values) > 0 {
					walks = append(walks, together(f, v, g, g.values[(at+1)%len(g.values)]))
				}
			}
		}
	}
	planned := map[string]bool{}
	for _, w := range walks {
		planned[w.String()] = true
	}
	var rest []walk
	for i, f := range fields {
		for _, g := range fields[i+1:] {
			for _, v := range f.values {
				for _, u := range g.values {
					for _, w := range []walk{together(f, v, g, u), together(g, u, f, v)} {
						if !planned[w.String()] {
							rest = append(rest, w)
						}
					}
				}
			}
		}
	}
	shuffle(rest, 1)
	walks, rest = append(walks, rest...), nil
	for _, f := range fields {
		for _, v := range f.values {
			for _, u := range f.values {
				if v.name != u.name {
					for _, how := range []mode{steady, hasty} {
						if w := (walk{how, []state{with(f, v), with(f, u), with(f, v)}, usual}); !planned[w.String()] {
							rest = append(rest, w)
						}
					}
					rest = append(rest, walk{replaced, []state{with(f, v), with(f, u)}, usual})
				}
			}
		}
	}
	shuffle(rest, 2)
	return append(walks, rest...)
}

// together returns a walk from one change to two and to the other one.
func together(f *field, v value, g *field, u value) walk {
	both := []change{{f, v}, {g, u}}
	return walk{steady, []state{{both[:1]}, {both}, {both[1:]}}, usual}
}

func shuffle(walks []walk, seed uint64) {
	rand.New(rand.NewPCG(seed, 0)).Shuffle(len(walks), func(i, j int) { walks[i], walks[j] = walks[j], walks[i] })
}

// interleaved takes from each list alternately.
func interleaved(lists [][]walk) (all []walk) {
	for i := 0; ; i++ {
		more := false
		for _, list := range lists {
			if i < len(list) {
				all, more = append(all, list[i]), true
			}
		}
		if !more {
			return all
		}
	}
}

// namesOf returns names of objects: edges of what Kubernetes allows, and of rules of the schema.
func namesOf(root *props) []string {
	names := []string{"a", "a-1", "1a", "a.b", "x" + strings.Repeat("-", 20) + "x"}
	lengths := []int64{63, 253}
	lengths = append(lengths, mine(rulesFor("metadata", root, nil)).numbers...)
	for _, bound := range lengths {
		for _, length := range around(bound) {
			if length > 0 && length <= 253 {
				names = append(names, strings.Repeat("x", int(length)))
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// planVersion changes when a journal of an older version of this package must not be continued.
const planVersion = 2

// fingerprint identifies a plan in the journal.
func fingerprint(root *props, base map[string]any, walks []walk) string {
	encoded, err := json.Marshal(struct {
		Root *props
		Base map[string]any
	}{root, base})
	if err != nil {
		return ""
	}
	var all strings.Builder
	all.Write(encoded)
	for _, w := range walks {
		all.WriteString(w.String())
	}
	return fmt.Sprintf("v%d-%08x-%d", planVersion, hashOf(all.String()), len(walks))
}
