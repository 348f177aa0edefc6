package worktree_test

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/bellerophon/dev/worktree"
	"pgregory.net/rapid"
)

// someFile draws one of a few files, so that two trees often have the same one.
var someFile = rapid.Custom(func(t *rapid.T) worktree.File {
	if rapid.IntRange(0, 3).Draw(t, "kind") == 0 {
		return worktree.File{Mode: fs.ModeSymlink | fs.ModePerm, Link: rapid.SampledFrom([]string{"a", "../b"}).Draw(t, "link")}
	}
	size := rapid.Int64Range(0, 2).Draw(t, "size")
	return worktree.File{Mode: rapid.SampledFrom([]fs.FileMode{0o644, 0o755}).Draw(t, "mode"), Size: size, Sum: fmt.Sprintf("%064d", size)}
})

var someNames = []string{"a", "b", "a/a", "a/b", "b/a", "b/b", "a/a/a", "a/a/b", "a/b/a", "b/a/a", "b/b/b", "a/a/a/a", "a/a/a/b", "a/b/a/b"}

// someTree draws a tree with few names, so that a name is a file in one tree and a directory in another one. taken
// holds more files that share the directories.
func someTree(t *rapid.T, label string, taken ...string) worktree.Tree {
	tree := worktree.Tree{}
	names := rapid.SliceOfNDistinct(rapid.SampledFrom(someNames), 0, 8, rapid.ID[string]).Draw(t, label)
	for _, name := range names {
		inTheWay := func(other string) bool {
			return other == name || strings.HasPrefix(other, name+"/") || strings.HasPrefix(name, other+"/")
		}
		if !slices.ContainsFunc(slices.Concat(taken, slices.Collect(maps.Keys(tree))), inTheWay) {
			tree[name] = someFile.Draw(t, label+" file")
		}
	}
	return tree
}

// disk is a file system. A directory has the zero File.
type disk map[string]worktree.File

func (d disk) isDirectory(name string) bool {
	file, is := d[name]
	return is && file == worktree.File{}
}

func (d disk) write(name string, file worktree.File) error {
	for directory := path.Dir(name); directory != "."; directory = path.Dir(directory) {
		if _, is := d[directory]; is && !d.isDirectory(directory) {
			return fmt.Errorf("write %s: %s is a file", name, directory)
		}
		d[directory] = worktree.File{}
	}
	if d.isDirectory(name) {
		return fmt.Errorf("write %s: it is a directory", name)
	}
	if had, is := d[name]; is && had.IsLink() != file.IsLink() {
		return fmt.Errorf("write %s: a link and a file do not replace each other", name)
	}
	d[name] = file
	return nil
}

func (d disk) remove(name string) {
	maps.DeleteFunc(d, func(each string, _ worktree.File) bool { return each == name || strings.HasPrefix(each, name+"/") })
}

func (d disk) isEmpty(directory string) bool {
	for each := range d {
		if strings.HasPrefix(each, directory+"/") {
			return false
		}
	}
	return true
}

func (d disk) apply(change worktree.Change, want worktree.Tree) error {
	for _, name := range change.Remove {
		d.remove(name)
	}
	for _, directory := range change.RemoveEmpty {
		if d.isDirectory(directory) && d.isEmpty(directory) {
			delete(d, directory)
		}
	}
	for _, name := range change.Send {
		if err := d.write(name, want[name]); err != nil {
			return err
		}
	}
	return nil
}

// holds reports whether a tree has files below a directory.
func holds(tree worktree.Tree, directory string) bool {
	for name := range tree {
		if strings.HasPrefix(name, directory+"/") {
			return true
		}
	}
	return false
}

// The container also has results of a build. They stay, unless a file of the project needs their place.
func TestADifferenceMakesOneTreeAnother(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		has := someTree(t, "has")
		built := someTree(t, "built", slices.Collect(maps.Keys(has))...)
		want := someTree(t, "want")
		for name := range built { // Difference cannot know results in the way, except below a directory of the project.
			for wanted := range want {
				if wanted == name || strings.HasPrefix(wanted, name+"/") || strings.HasPrefix(name, wanted+"/") && !holds(has, wanted) {
					delete(built, name)
				}
			}
		}
		files := disk{}
		for _, tree := range []worktree.Tree{has, built} {
			for name, file := range tree {
				if err := files.write(name, file); err != nil {
					t.Fatal(err)
				}
			}
		}
		change := worktree.Difference(has, want)
		if err := files.apply(change, want); err != nil {
			t.Fatalf("apply %+v: %v", change, err)
		}
		expected := disk{}
		for name, file := range want {
			if err := expected.write(name, file); err != nil {
				t.Fatal(err)
			}
		}
		for name, file := range built {
			isInTheWay := false
			for wanted := range want {
				isInTheWay = isInTheWay || strings.HasPrefix(name, wanted+"/")
			}
			if isInTheWay {
				continue
			}
			if err := expected.write(name, file); err != nil {
				t.Fatal(err)
			}
		}
		if !maps.Equal(files, expected) {
			t.Fatalf("from %v with the results %v to %v, the change %+v gives %v; want %v", has, built, want, change, files, expected)
		}
	})
}

func TestADifferenceNamesOnlyFilesThatDiffer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		has, want := someTree(t, "has"), someTree(t, "want")
		change := worktree.Difference(has, want)
		for _, name := range change.Send {
			if is, had := has[name]; had && is == want[name] {
				t.Fatalf("%s is sent, and has not changed", name)
			}
		}
		if change.IsEmpty() != maps.Equal(has, want) {
			t.Fatalf("the change from %v to %v is empty: %t", has, want, change.IsEmpty())
		}
		paths := change.Paths()
		if !slices.IsSorted(paths) || !slices.IsSorted(change.Remove) || !slices.IsSorted(change.Send) || len(slices.Compact(slices.Clone(paths))) != len(paths) {
			t.Fatalf("the change is not sorted: %+v, and its paths are %q", change, paths)
		}
		for _, name := range slices.Concat(change.Remove, change.Send) {
			if !slices.Contains(paths, name) {
				t.Fatalf("%s is not in the paths %q", name, paths)
			}
		}
	})
}

func TestEachChangeOfAFileIsADifference(t *testing.T) {
	file := func(mode fs.FileMode, sum string) worktree.File { return worktree.File{Mode: mode, Size: 1, Sum: sum} }
	link := func(to string) worktree.File { return worktree.File{Mode: fs.ModeSymlink | fs.ModePerm, Link: to} }
	one, two := file(0o644, "1"), file(0o644, "2")
	for name, test := range map[string]struct {
		has, want worktree.Tree
		change    worktree.Change
	}{
		"nothing":            {worktree.Tree{"a": one}, worktree.Tree{"a": one}, worktree.Change{}},
		"a new file":         {worktree.Tree{}, worktree.Tree{"a/b": one}, worktree.Change{Send: []string{"a/b"}}},
		"the content":        {worktree.Tree{"a": one}, worktree.Tree{"a": two}, worktree.Change{Send: []string{"a"}}},
		"the permissions":    {worktree.Tree{"a": one}, worktree.Tree{"a": file(0o755, "1")}, worktree.Change{Send: []string{"a"}}},
		"the target":         {worktree.Tree{"a": link("b")}, worktree.Tree{"a": link("c")}, worktree.Change{Send: []string{"a"}}},
		"a file to a link":   {worktree.Tree{"a": one}, worktree.Tree{"a": link("c")}, worktree.Change{Remove: []string{"a"}, Send: []string{"a"}}},
		"a link to a file":   {worktree.Tree{"a": link("c")}, worktree.Tree{"a": one}, worktree.Change{Remove: []string{"a"}, Send: []string{"a"}}},
		"a file to a folder": {worktree.Tree{"a": one}, worktree.Tree{"a/b": one}, worktree.Change{Remove: []string{"a"}, Send: []string{"a/b"}}},
		"a folder to a file": {worktree.Tree{"a/b": one}, worktree.Tree{"a": one}, worktree.Change{Remove: []string{"a", "a/b"}, Send: []string{"a"}}},
		"a rename": {worktree.Tree{"a/b": one, "c": two}, worktree.Tree{"d/b": one, "c": two},
			worktree.Change{Remove: []string{"a/b"}, RemoveEmpty: []string{"a"}, Send: []string{"d/b"}}},
		"deep folders": {worktree.Tree{"a/b/c/d": one, "a/e/f": one, "a/g": two}, worktree.Tree{"a/g": two},
			worktree.Change{Remove: []string{"a/b/c/d", "a/e/f"}, RemoveEmpty: []string{"a/b/c", "a/b", "a/e"}}},
		"everything": {worktree.Tree{"a/b/c": one, "a/b-c/d": one}, worktree.Tree{},
			worktree.Change{Remove: []string{"a/b-c/d", "a/b/c"}, RemoveEmpty: []string{"a/b", "a/b-c", "a"}}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := worktree.Difference(test.has, test.want); !reflect.DeepEqual(got, test.change) {
				t.Errorf("the change is %+v, want %+v", got, test.change)
			}
		})
	}
}

func TestTwoTreesHaveOneRootOnlyIfTheyAreEqual(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		one, other := someTree(t, "one"), someTree(t, "other")
		if rapid.Bool().Draw(t, "almost equal") {
			other = maps.Clone(one)
			for name, file := range one {
				switch rapid.IntRange(0, 5).Draw(t, "edit") {
				case 0:
					file.Mode ^= 0o100
				case 1:
					file.Size++
				case 2:
					file.Sum = strings.Repeat("f", 64)
				case 3:
					file.Link += "x"
				case 4:
					delete(other, name)
					name += "x"
				}
				other[name] = file
				break
			}
		}
		if (one.Root() == other.Root()) != maps.Equal(one, other) {
			t.Fatalf("the roots are %s and %s of %v and %v", one.Root(), other.Root(), one, other)
		}
	})
}

// These trees would be equal if the parts of the hash had no lengths.
func TestNamesAndTargetsCannotPassForOtherFiles(t *testing.T) {
	mode := fs.ModeSymlink | fs.ModePerm
	trees := []worktree.Tree{
		{},
		{"": {}},
		{"a": {Mode: mode, Link: "b"}, "c": {Mode: mode, Link: "d"}},
		{"a": {Mode: mode, Link: fmt.Sprintf("b;1:c%o,0,,1:d", uint32(mode))}},
		{fmt.Sprintf("a%o,0,,1:b;1:c", uint32(mode)): {Mode: mode, Link: "d"}},
		{"a1": {Mode: 0o644}},
		{"a": {Mode: 0o1644}},
	}
	for i, one := range trees {
		for j, other := range trees {
			if i < j && one.Root() == other.Root() {
				t.Errorf("%v and %v have the root %s", one, other, one.Root())
			}
		}
	}
}

func TestATreeSurvivesItsEncoding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := someTree(t, "tree")
		got, err := worktree.Decode(want.Encode())
		if err != nil || !maps.Equal(got, want) || got.Root() != want.Root() {
			t.Fatalf("the tree is %v, %v; want %v", got, err, want)
		}
	})
	for _, broken := range []string{"", "{", `{"a":1}`, "[]"} {
		if tree, err := worktree.Decode([]byte(broken)); err == nil || !strings.HasPrefix(err.Error(), "decode the list of synced files: ") {
			t.Errorf("the tree of %q is %v, %v; want an error", broken, tree, err)
		}
	}
}

func TestTheBytesOfATreeAreTheSumOfItsFiles(t *testing.T) {
	if sum := (worktree.Tree{"a": {Size: 3}, "b/c": {Size: 4 << 30}, "d": {Link: "a"}}).Bytes(); sum != 3+4<<30 {
		t.Errorf("the sum is %d, want %d", sum, int64(3+4<<30))
	}
}

// A container sends the list. With an absolute path, the search for the directories above it would not end.
func TestATreeWithPathsOutOfTheProjectIsRefused(t *testing.T) {
	for _, name := range []string{"/", "/etc/passwd", "../x", "a/../../x", "a//b", "./a", ".", "", "a/"} {
		encoded := worktree.Tree{name: {Mode: 0o644}}.Encode()
		if tree, err := worktree.Decode(encoded); err == nil || !strings.HasSuffix(err.Error(), "is no path within the project") {
			t.Errorf("%q is decoded as %v, %v; want an error", name, tree, err)
		}
	}
}
