package container

import (
	"bytes"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/bellerophon/dev/worktree"
)

// A container is the code of others. Whatever it sends as its list of files, the next sync must end, stay within the project, and make
// the tree that is wanted.
func FuzzAnyListOfAContainerLeadsToTheProject(f *testing.F) {
	f.Add("epoch\n./none\n")
	f.Add("epoch\na/b\n./manifest\n" + string(worktree.Tree{"a/b": {Mode: 0o644, Size: 3}, "c": {}}.Encode()))
	f.Add("epoch\n/\n./none\n")
	f.Add(`epoch
./manifest
{"/etc/passwd":{"mode":420},"../x":{"mode":420}}`)
	want := worktree.Tree{"a": {Mode: 0o644, Size: 1}, "d/e": {Mode: 0o755, Size: 2}}
	f.Fuzz(func(t *testing.T, output string) {
		has, seen, err := heldIn(output)
		if err != nil {
			return
		}
		if seen.isDamaged && len(has) > 0 {
			t.Errorf("of a damaged list, %d files are left", len(has))
		}
		change := worktree.Difference(has, want)
		contents := make([]worktree.Content, len(change.Send))
		for i, name := range change.Send {
			contents[i] = worktree.Content{Path: name, File: want[name]}
		}
		if err := checkChange(change, contents); err != nil {
			if !strings.Contains(output, "\\n") && !strings.Contains(output, "\\u") { // Only JSON names a file with a line break.
				t.Errorf("of %q comes a change that no sync can make: %v", output, err)
			}
			return
		}
		if sent := header(change, contents, seen.isDamaged); bytes.Contains(sent, []byte("/../")) || !bytes.HasSuffix(sent, []byte(".\n")) {
			t.Errorf("of %q it sends %q", output, sent)
		}
	})
}
