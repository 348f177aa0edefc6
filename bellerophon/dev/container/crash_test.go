package container

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/dev/worktree"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"pgregory.net/rapid"
)

// anyProject draws a project with few names, so that files, links and directories take each other's places.
func anyProject(t *rapid.T) project {
	made := project{}
	for range rapid.IntRange(0, 6).Draw(t, "files") {
		name := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "-c d", "'é*"}), 1, 3).Draw(t, "path"), "/")
		isFree := true
		for other := range made {
			if other == name || strings.HasPrefix(other, name+"/") || strings.HasPrefix(name, other+"/") {
				isFree = false
			}
		}
		if !isFree {
			continue
		}
		if rapid.IntRange(0, 3).Draw(t, "kind") == 0 {
			made[name] = link(name, rapid.SampledFrom([]string{"a", "b/a", "/nowhere", ".."}).Draw(t, "target"))
			continue
		}
		data := rapid.SampledFrom([]string{"", "x", "y", strings.Repeat("long ", 5000)}).Draw(t, "data")
		made[name] = file(name, data, rapid.SampledFrom([]os.FileMode{0o644, 0o755, 0o400}).Draw(t, "mode"))
	}
	return made
}

// results are files in the project's directory that were not synced.
type results map[string]bool // by path: whether a file of the project has never been in the way

func (r results) add(t *rapid.T, root string) {
	name := path.Join(rapid.SampledFrom([]string{".", "a", "b", "a/b"}).Draw(t, "result"), "result")
	base := filepath.Join(root, projectDirectory)
	for directory := path.Dir(name); directory != "."; directory = path.Dir(directory) {
		if info, err := os.Lstat(filepath.Join(base, directory)); err != nil || !info.IsDir() {
			return // A build would not replace files of the project.
		}
	}
	if err := os.MkdirAll(base, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(base, name), []byte("r"), 0o644); err != nil {
		t.Fatal(err)
	}
	r[name] = true
}

// mayLose notes that a sync of a project was tried.
func (r results) mayLose(want project) {
	for name := range r {
		for directory := path.Dir(name); directory != "."; directory = path.Dir(directory) {
			if _, is := want[directory]; is {
				r[name] = false
			}
		}
	}
}

// check checks that the directory has the project's files and the results.
func (r results) check(t *rapid.T, root string, want project) {
	has := onDisk(t, root)
	for name, stays := range r {
		if _, is := has[name]; stays && !is {
			t.Fatalf("the result %s is gone", name)
		}
		delete(has, name)
	}
	tree := want.tree()
	if !maps.Equal(has, tree) {
		t.Fatalf("the directory has\n%v\nwant\n%v", has, tree)
	}
}

// bringAtLast repeats bring after errors, as a caller does.
func bringAtLast(t *rapid.T, e *Execs, want project) {
	var err error
	for range 5 {
		if err = bring(context.Background(), e, place, want); err == nil {
			return
		}
	}
	t.Fatalf("the sync fails again and again: %v", err)
}

func TestSyncsInAnyOrderEndWithTheTree(t *testing.T) {
	available := slices.Sorted(maps.Keys(shells(t)))
	rapid.Check(t, func(rt *rapid.T) {
		root, kept := t.TempDir(), results{}
		shell := shells(t)[rapid.SampledFrom(available).Draw(rt, "shell")]
		e := newExecs(newLocal(t, shell), root)
		for range rapid.IntRange(1, 3).Draw(rt, "syncs") {
			want := anyProject(rt)
			kept.mayLose(want)
			if err := bring(t.Context(), e, place, want); err != nil {
				rt.Fatal(err)
			}
			kept.check(rt, root, want)
			kept.add(rt, root)
		}
	})
}

func TestASyncThatIsKilledOrCutOffLosesNothing(t *testing.T) {
	available := slices.Sorted(maps.Keys(shells(t)))
	rapid.Check(t, func(rt *rapid.T) {
		root, kept := t.TempDir(), results{}
		shell := shells(t)[rapid.SampledFrom(available).Draw(rt, "shell")]
		var interrupted []*local
		for range rapid.IntRange(1, 2).Draw(rt, "rounds") {
			for range rapid.IntRange(1, 3).Draw(rt, "interrupted syncs") {
				want := anyProject(rt)
				kept.mayLose(want)
				by := newLocal(t, shell)
				interrupted = append(interrupted, by)
				interrupt(rt, by, root, want)
			}
			want := anyProject(rt)
			kept.mayLose(want)
			bringAtLast(rt, newExecs(newLocal(t, shell), root), want)
			for _, by := range interrupted { // A script that goes on must not change anything now.
				if err := by.group.Wait(); err != nil {
					rt.Fatal(err)
				}
			}
			kept.check(rt, root, want)
			kept.add(rt, root)
		}
	})
}

// interrupt tries a sync that is cut off, killed, or goes on without its connection.
func interrupt(t *rapid.T, by *local, root string, want project) {
	e := newExecs(by, root)
	has, err := e.Held(context.Background(), place)
	if err != nil {
		t.Fatal(err)
	}
	change := worktree.Difference(has, want.tree())
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	after := time.Duration(rapid.IntRange(0, 40_000).Draw(t, "microseconds")) * time.Microsecond
	switch rapid.SampledFrom([]string{"cut", "kill", "lose"}).Draw(t, "interruption") {
	case "cut":
		by.cut = rapid.IntRange(3000, 20_000).Draw(t, "bytes")
	case "kill":
		by.onStart = func(pid int) { time.AfterFunc(after, func() { _ = syscall.Kill(-pid, syscall.SIGKILL) }) }
	case "lose":
		by.onStart = func(int) { time.AfterFunc(after, cancel) }
	}
	_ = e.Sync(ctx, place, change, want.contents(change.Send), want.tree())
}

func TestAFileOfAnEarlierInterruptedSyncStaysPending(t *testing.T) {
	root := t.TempDir()
	want := projectOf(file("a", "1", 0o644), file("b", "1", 0o644))
	for _, names := range [][]string{{"a", "b"}, {"a"}} { // The second sync is a part of a change.
		change := worktree.Change{Send: names}
		contents := want.contents(names)
		sent, err := io.ReadAll(scriptInput(processScript+syncScript, bytes.NewReader(header(change, contents, false))))
		if err != nil {
			t.Fatal(err)
		}
		cut := newLocal(t, []string{"sh"})
		e := newExecs(cut, root)
		if _, err := e.Held(t.Context(), place); err != nil {
			t.Fatal(err)
		}
		cut.cut = len(sent) + 100
		if err := e.Sync(t.Context(), place, change, contents, want.tree()); err == nil {
			t.Fatal("Sync() of a part returns no error")
		}
	}
	has, err := newExecs(newLocal(t, []string{"sh"}), root).Held(t.Context(), place)
	if _, isPending := has["b"]; err != nil || !isPending || len(has) != 2 {
		t.Errorf("Held() = %v, %v, want both files", has, err)
	}
}

func TestAManifestOfAnInterruptedSyncIsNotUsed(t *testing.T) {
	root := t.TempDir()
	cut := newLocal(t, []string{"sh"})
	e := newExecs(cut, root)
	if err := bring(t.Context(), e, place, projectOf(file("a", "1", 0o644))); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"manifest.new", "complete"} {
		if err := os.WriteFile(filepath.Join(root, StateDirectory, name), projectOf(file("b", "old", 0o644)).tree().Encode(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want := projectOf(file("a", "2", 0o644), file("b", "2", 0o644))
	change := worktree.Difference(projectOf(file("a", "1", 0o644)).tree(), want.tree())
	list := header(change, want.contents(change.Send), false)
	all, err := io.ReadAll(scriptInput(processScript+syncScript, bytes.NewReader(list)))
	if err != nil {
		t.Fatal(err)
	}
	cut.cut = len(all) + 1024 // tar takes the end of the first file for the end of the archive.
	if err := e.Sync(t.Context(), place, change, want.contents(change.Send), want.tree()); err == nil {
		t.Error("Sync() of a part returns no error")
	}
	if err := bring(t.Context(), newExecs(newLocal(t, []string{"sh"}), root), place, want); err != nil {
		t.Fatal(err)
	}
	compare(t, root, want.tree())
}

func TestASyncThatIsCutOffAtAnyByteOfItsListLosesNothing(t *testing.T) {
	before := projectOf(file("a", "1", 0o644), file("d/x", "1", 0o644), file("l", "l", 0o644), file("gone/y", "y", 0o644))
	between := projectOf(file("a", "22", 0o755), file("d", "2", 0o644), link("l", "a"), file("new/z", "z", 0o644))
	after := projectOf(file("a", "1", 0o644), file("d/x/y", "3", 0o644), file("gone/y", "y", 0o644))
	change := worktree.Difference(before.tree(), between.tree())
	list := header(change, between.contents(change.Send), false)
	all, err := io.ReadAll(scriptInput(processScript+syncScript, newUpload(projectDirectory, list, between.contents(change.Send), between.tree())))
	if err != nil {
		t.Fatal(err)
	}
	start := strings.Index(string(all), string(list))
	var offsets []int
	for offset := range len(list) + 2 {
		offsets = append(offsets, start-1+offset)
	}
	for block := start + len(list); block < len(all); block += 512 {
		offsets = append(offsets, block, block+1, block+511)
	}
	for offset := 0; offset < start; offset += 1000 {
		offsets = append(offsets, offset)
	}
	root := t.TempDir()
	for i, offset := range offsets {
		cut := newLocal(t, []string{"sh"})
		cut.cut = offset
		uncut := newExecs(newLocal(t, []string{"sh"}), root)
		if err := bring(t.Context(), uncut, place, before); err != nil {
			t.Fatal(err)
		}
		e := newExecs(cut, root)
		e.known = uncut.known
		err := e.Sync(t.Context(), place, change, between.contents(change.Send), between.tree())
		if err == nil {
			compare(t, root, between.tree())
		} else if offset < start+len(list) {
			compare(t, root, before.tree())
		}
		want := []project{before, between, after}[i%3]
		if err := bring(t.Context(), newExecs(newLocal(t, []string{"sh"}), root), place, want); err != nil {
			t.Fatal(err)
		}
		compare(t, root, want.tree())
	}
	t.Logf("%d offsets", len(offsets))
}

// running reports whether a process lives.
func running(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

// until waits until a condition is true.
func until(t testing.TB, what string, is func() bool) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	limit := time.NewTimer(20 * time.Second)
	defer limit.Stop()
	for !is() {
		select {
		case <-ticker.C:
		case <-limit.C:
			t.Fatalf("%s does not happen", what)
		}
	}
}

func TestASyncThatHangsIsKilledByTheNext(t *testing.T) {
	eachShell(t, func(t *testing.T, shell []string) {
		root := t.TempDir()
		hanging := newLocal(t, shell)
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer write.Close()
		if _, err := io.Copy(write, scriptInput(processScript+syncScript, strings.NewReader("shalf a name"))); err != nil {
			t.Fatal(err)
		}
		group := lifecycle.New(t.Context())
		var exit int
		group.Go("hanging sync", func(ctx context.Context) (err error) {
			exit, err = hanging.exec(ctx, place, bootstrapArgv(root, StateDirectory, projectDirectory, place.ID, "", "epoch", "proof"), read, io.Discard, io.Discard)
			return err
		})
		until(t, "the lock", func() bool { _, err := os.Stat(filepath.Join(root, StateDirectory, "lock")); return err == nil })
		want := projectOf(file("a", "a", 0o644))
		began := time.Now()
		if err := bring(t.Context(), newExecs(newLocal(t, shell), root), place, want); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < 2*time.Second || took > 15*time.Second {
			t.Errorf("the second sync took %v", took)
		}
		compare(t, root, want.tree())
		_ = read.Close()
		if err := group.Wait(); err != nil || exit != 137 {
			t.Errorf("the first sync ended with %d, %v, want a kill", exit, err)
		}
	})
}

func TestALockOfAnotherContainerOrADeadSyncDoesNotBlock(t *testing.T) {
	eachShell(t, func(t *testing.T, shell []string) {
		pid := os.Getpid() // It is a group leader only by chance, and must not be killed in any case.
		for name, owner := range map[string]string{
			"another start of the container": fmt.Sprintf("containerd://zero %d 1", pid),
			"a process that ended":           "containerd://one 4194304 1",
			"a reused process ID":            fmt.Sprintf("containerd://one %d 1", pid),
			"nothing":                        "",
		} {
			root := t.TempDir()
			lock := filepath.Join(root, StateDirectory, "lock")
			if err := errors.Join(os.MkdirAll(lock, 0o755), os.WriteFile(filepath.Join(lock, "owner"), []byte(owner+"\n"), 0o644)); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			want := projectOf(file("a", "a", 0o644))
			if err := bring(t.Context(), newExecs(newLocal(t, shell), root), place, want); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if took := time.Since(began); took > 4*time.Second {
				t.Errorf("%s: the sync took %v", name, took)
			}
			compare(t, root, want.tree())
			if entries, _ := filepath.Glob(filepath.Join(root, StateDirectory, "*lock*")); len(entries) > 0 {
				t.Errorf("%s: %v is left", name, entries)
			}
		}
	})
}
