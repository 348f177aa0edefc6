package dependents_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/dependents"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

// graph is a random set: each child comes after some of the ones before it.
type graph struct {
	names []string
	after map[string][]string
	slow  map[string]bool
	found *[]string // what is wrong
}

func (g graph) wrong(format string, details ...any) {
	*g.found = append(*g.found, fmt.Sprintf(format, details...))
}

func drawGraph(t *rapid.T) graph {
	g := graph{after: map[string][]string{}, slow: map[string]bool{}, found: new([]string)}
	for i := range rapid.IntRange(1, 6).Draw(t, "children") {
		name := string(rune('a' + i))
		for _, other := range g.names {
			if rapid.IntRange(0, 2).Draw(t, name+" after "+other) == 0 {
				g.after[name] = append(g.after[name], other)
			}
		}
		g.slow[name] = rapid.IntRange(0, 2).Draw(t, name+" is slow") == 0
		g.names = append(g.names, name)
	}
	return g
}

// set declares the children, in the reverse order: only After may decide.
func (g graph) set(w *world) *dependents.Set[*corev1.ConfigMap] {
	made := map[string]*child{}
	var members []dependents.Dependent[*corev1.ConfigMap]
	for _, name := range g.names {
		one := secret(name)
		if g.slow[name] {
			one = slow(one)
		}
		for _, other := range g.after[name] {
			one.After(made[other])
		}
		made[name] = one
		members = append([]dependents.Dependent[*corev1.ConfigMap]{one}, members...)
	}
	return w.newSet(members...)
}

// desired reports whether a child is desired, with all that it comes after.
func (g graph) desired(name, without string) bool {
	return !strings.Contains(without, name) && !slices.ContainsFunc(g.after[name], func(other string) bool { return !g.desired(other, without) })
}

func (g graph) isReady(children map[string]corev1.Secret, name string) bool {
	found, exists := children[name]
	return exists && (!g.slow[name] || found.Annotations["ready"] == "true")
}

// waits reports whether a child waits for another one, which is not ready or waits itself. A child that waits is
// not brought up to date.
func (g graph) waits(children map[string]corev1.Secret, name string) bool {
	return slices.ContainsFunc(g.after[name], func(other string) bool { return !g.isReady(children, other) || g.waits(children, other) })
}

// watch checks the order of each write against the state of the server at that moment.
func (g graph) watch(w *world) {
	w.onWrite = func(method, name string) {
		children := w.children()
		switch method {
		case "DELETE":
			for _, other := range g.names {
				if _, exists := children[other]; exists && slices.Contains(g.after[other], name) {
					g.wrong("%s is deleted before %s", name, other)
				}
			}
		default:
			for _, other := range g.after[name] {
				if !g.isReady(children, other) {
					g.wrong("%s is written before %s is ready", name, other)
				}
			}
		}
	}
}

// settled checks the state when nothing is in flight.
func (g graph) settled(w *world, when, value, without string) {
	children := w.children()
	for _, name := range g.names {
		found, exists := children[name]
		switch desired := g.desired(name, without); {
		case !desired && exists:
			g.wrong("%s %s exists, and is not desired", when, name)
		case desired && !g.waits(children, name) && (!exists || string(found.Data["value"]) != value):
			g.wrong("%s %s is %v, want the value %s; %s", when, name, found.Data, value, w.last().Message())
		}
	}
}

// step is what happens while one manager runs: its client stops at a write, and another client acts.
type step struct {
	stopAt  int
	after   bool
	action  int
	child   string
	without string
}

func (g graph) drawStep(t *rapid.T) step {
	return step{
		stopAt:  rapid.IntRange(0, 4).Draw(t, "stop at write"),
		after:   rapid.Bool().Draw(t, "after it"),
		action:  rapid.IntRange(0, 3).Draw(t, "action"),
		child:   rapid.SampledFrom(g.names).Draw(t, "child"),
		without: strings.Join(rapid.SliceOfN(rapid.SampledFrom(g.names), 0, 3).Draw(t, "without"), ""),
	}
}

// The client stops at any write, before or after the server has it. A new manager goes on from what is
// there. Users, controllers of the children, and vandals act in between.
func TestWhateverStopsWhenChildrenConvergeInOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		g := drawGraph(rt)
		steps := rapid.SliceOfN(rapid.Custom(g.drawStep), 1, 4).Draw(rt, "steps") // Rapid ends a draw by a panic, so none is in the bubble.
		inWorld(t, func(w *world) {
			g.watch(w)
			set := g.set(w)
			value, without := "", ""
			for number, step := range steps {
				w.start(set, step.stopAt, step.after)
				switch _, exists := w.children()[step.child]; {
				case step.action == 0:
					value = fmt.Sprint(number)
					w.set(map[string]string{"value": value, "without": without})
				case step.action == 1:
					without = step.without
					w.set(map[string]string{"value": value, "without": without})
				case exists && step.action == 2:
					w.markReady(step.child, true)
				case exists && step.action == 3:
					w.must(w.server.Delete(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: step.child}}))
					w.wait(time.Minute)
				}
				w.stop()
			}
			w.start(set, 0, false)
			w.wait(time.Hour) // Backoffs end.
			g.settled(w, "in the end", value, without)
			w.sent = nil
			w.set(map[string]string{"value": value, "without": without, "other": "x"})
			if len(w.sent) > 0 {
				g.wrong("after a change that concerns no child it sent %q", w.sent)
			}
		})
		if len(*g.found) > 0 {
			rt.Fatalf("the children come after %v, slow are %v: %s", g.after, g.slow, strings.Join(*g.found, "; "))
		}
	})
}
