package loop_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/dev/worktree"
)

// branchFiles is the number of files that a large branch switch changes.
const branchFiles = 5000

// TestRandomSchedulesEndWithTheProjectsTree disturbs the loop in every way, and then lets it come to rest.
func TestRandomSchedulesEndWithTheProjectsTree(t *testing.T) {
	for seed := *first; seed < *first+*schedules; seed++ {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			defer w.end()
			random := rand.New(rand.NewPCG(uint64(seed), 28))
			w.containers.buildFor = time.Duration(random.IntN(5000)) * time.Millisecond
			w.containers.sendFor = time.Duration(random.IntN(300)) * time.Millisecond
			w.delay = time.Duration(random.IntN(8000)) * time.Millisecond
			w.start()
			var steps []string
			for range 3 + random.IntN(12) {
				<-time.After(time.Duration(random.ExpFloat64() * float64(700*time.Millisecond)))
				steps = append(steps, w.disturb(random, seed))
			}
			defer func() {
				if t.Failed() {
					t.Logf("seed %d: %v", seed, steps)
				}
			}()
			w.wantRunning(5 * time.Minute)
		})
	}
}

// disturb does something that goes on in a project or a cluster, and returns its name.
func (w *world) disturb(random *rand.Rand, seed int) string {
	switch random.IntN(14) {
	case 0, 1, 2:
		w.project.edit(func(tree worktree.Tree) {
			delete(tree, "lib") // If it is a file.
			tree[fmt.Sprintf("lib/d%d/f%d.go", random.IntN(3), random.IntN(8))] = version(random.IntN(1 << 20))
		})
		return "edit"
	case 3:
		w.project.edit(func(tree worktree.Tree) { delete(tree, one(random, tree)) })
		return "delete"
	case 4:
		w.project.edit(func(tree worktree.Tree) {
			from := one(random, tree)
			file, is := tree[from]
			if !is {
				return
			}
			delete(tree, from)
			tree[fmt.Sprintf("renamed%d", random.IntN(9))] = file
		})
		return "rename"
	case 5:
		w.project.edit(func(tree worktree.Tree) { // A directory becomes a file, or a file a directory.
			if _, is := tree["lib"]; is {
				delete(tree, "lib")
				tree["lib/a.go"] = version(7)
				return
			}
			maps.DeleteFunc(tree, func(path string, _ worktree.File) bool { return len(path) > 4 && path[:4] == "lib/" })
			tree["lib"] = version(8)
		})
		return "change a type"
	case 6:
		number := 20
		if seed%50 == 0 {
			number = branchFiles
		}
		branch := random.IntN(3)
		w.project.edit(func(tree worktree.Tree) {
			clear(tree)
			for i := range number {
				tree[fmt.Sprintf("p%d/f%d", i%17, i)] = version(i * (branch + 1))
			}
			tree["main.go"] = version(branch)
		})
		return "switch the branch"
	case 7, 8:
		w.killPods()
		return "kill the pod"
	case 9:
		w.outage(time.Duration(random.IntN(20_000)) * time.Millisecond)
		return "outage"
	case 10:
		w.stop()
		w.start()
		return "restart the program"
	case 11:
		w.containers.cutOff(true)
		<-time.After(time.Duration(random.IntN(2000)) * time.Millisecond)
		w.containers.cutOff(false)
		return "lose the connections to the pod"
	case 12:
		for name, drift := range drifts {
			if found := w.deploymentIfAny(); found != nil {
				drift(w)
			}
			return name
		}
	case 13:
		w.server.Break()
		return "break the watches"
	}
	return "wait"
}

// one returns one of the files of a tree.
func one(random *rand.Rand, tree worktree.Tree) string {
	if len(tree) == 0 {
		return "none"
	}
	paths := slices.Sorted(maps.Keys(tree))
	return paths[random.IntN(len(paths))]
}
