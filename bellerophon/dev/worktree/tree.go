package worktree

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
)

// File is one file of a Tree: a regular file or a symbolic link.
type File struct {
	Mode fs.FileMode `json:"mode"`           // the permissions, and fs.ModeSymlink for a symbolic link
	Size int64       `json:"size,omitempty"` // in bytes; 0 for a symbolic link
	Sum  string      `json:"sum,omitempty"`  // SHA-256 of the content, in hexadecimal digits; empty if it is unknown
	Link string      `json:"link,omitempty"` // the target of a symbolic link
}

// IsLink reports whether the file is a symbolic link.
func (f File) IsLink() bool { return f.Mode&fs.ModeSymlink != 0 }

// Tree holds the files of a project by their paths. A path has slashes, and begins at the project's directory.
type Tree map[string]File

// Root returns a hash over the path, mode, size and content of all files, in hexadecimal digits.
func (t Tree) Root() string {
	hash := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(t)) {
		file := t[name]
		// Lengths keep two different trees from having one encoding.
		fmt.Fprintf(hash, "%d:%s%o,%d,%s,%d:%s;", len(name), name, uint32(file.Mode), file.Size, file.Sum, len(file.Link), file.Link)
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// Bytes returns the sum of the sizes of all files.
func (t Tree) Bytes() (sum int64) {
	for _, file := range t {
		sum += file.Size
	}
	return sum
}

// Encode returns the tree as JSON.
func (t Tree) Encode() []byte {
	encoded, err := json.Marshal(t)
	if err != nil {
		panic(err) // Strings and numbers can always be encoded.
	}
	return encoded
}

// Decode returns the tree that Encode has encoded. It refuses paths that lead out of the project.
func Decode(encoded []byte) (Tree, error) {
	tree := Tree{}
	if err := json.Unmarshal(encoded, &tree); err != nil {
		return nil, fmt.Errorf("decode the list of synced files: %w", err)
	}
	for name := range tree {
		if !IsPath(name) {
			return nil, fmt.Errorf("decode the list of synced files: %q is no path within the project", name)
		}
	}
	return tree, nil
}

// IsPath reports whether a name can be the path of a file of a Tree. [Difference] needs such paths: an absolute one has no end above it.
func IsPath(name string) bool { return fs.ValidPath(name) && name != "." }

// Change is what makes one tree another. Removals come first.
type Change struct {
	Remove      []string // files to remove, and whatever is in the way of a file; sorted
	RemoveEmpty []string // directories to remove if nothing is left in them, the deepest first
	Send        []string // files to send; sorted
}

// IsEmpty reports whether nothing has to be done.
func (c Change) IsEmpty() bool {
	return len(c.Remove) == 0 && len(c.RemoveEmpty) == 0 && len(c.Send) == 0
}

// Paths returns the paths of all files that the change touches, sorted.
func (c Change) Paths() []string {
	paths := slices.Concat(c.Remove, c.Send)
	slices.Sort(paths)
	return slices.Compact(paths)
}

// Difference returns the change that makes the tree has the tree want.
func Difference(has, want Tree) Change {
	var change Change
	needed, left := directories(want), map[string]bool{}
	for name := range has {
		if _, stays := want[name]; stays {
			continue
		}
		change.Remove = append(change.Remove, name)
		for directory := path.Dir(name); directory != "." && !needed[directory]; directory = path.Dir(directory) {
			left[directory] = true
		}
	}
	before := directories(has)
	for name, file := range want {
		had, is := has[name]
		if is && had == file {
			continue
		}
		change.Send = append(change.Send, name)
		switch {
		case before[name]: // A directory was where the file is, perhaps with results of a build.
			change.Remove = append(change.Remove, name)
		case is && had.IsLink() != file.IsLink():
			change.Remove = append(change.Remove, name)
		}
	}
	for directory := range left {
		if _, isFile := want[directory]; !isFile {
			change.RemoveEmpty = append(change.RemoveEmpty, directory)
		}
	}
	slices.Sort(change.Remove)
	slices.Sort(change.Send)
	slices.SortFunc(change.RemoveEmpty, func(a, b string) int {
		if deeper := strings.Count(b, "/") - strings.Count(a, "/"); deeper != 0 {
			return deeper
		}
		return strings.Compare(a, b)
	})
	return change
}

// directories returns all directories that have a file of the tree below them.
func directories(t Tree) map[string]bool {
	found := map[string]bool{}
	for name := range t {
		for directory := path.Dir(name); directory != "." && !found[directory]; directory = path.Dir(directory) {
			found[directory] = true
		}
	}
	return found
}
