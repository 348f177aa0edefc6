package sources_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/bellerophon-io/bellerophon/sources"
)

// A directory that is created again at once may get the inode of the previous one.
func TestADirectoryThatIsReplacedIsWatchedAnew(t *testing.T) {
	root := t.TempDir()
	put(t, root, "d/f", "0")
	f := fold(t, root, sources.FilesOptions{})
	f.expect(t, "d/f=0")
	for i := range 100 {
		must(t, os.RemoveAll(filepath.Join(root, "d")))
		put(t, root, "d/f", fmt.Sprint(i))
		f.expect(t, fmt.Sprintf("d/f=%d", i))
		put(t, root, "d/f", "changed")
		f.expect(t, "d/f=changed")
	}
}

// A directory that has moved into a new one is found there before its old name is found to be free.
// Its watch has to follow.
func TestADirectoryThatMovesIntoANewOneIsWatchedThere(t *testing.T) {
	root := t.TempDir()
	put(t, root, "d/e/f", "0")
	f := fold(t, root, sources.FilesOptions{})
	f.expect(t, "d/e/f=0")
	for i := range 50 {
		parent := fmt.Sprintf("new%d", i)
		must(t, os.Mkdir(filepath.Join(root, parent), 0o755))
		must(t, os.Rename(filepath.Join(root, "d"), filepath.Join(root, parent, "d")))
		f.expect(t, parent+"/d/e/f="+content(filepath.Join(root, parent, "d/e/f")))
		f.until(t, "the end of its old name", f.isEmitted("FileRemoved d/e/f"))
		put(t, root, "marker", parent) // All notifications before the marker have come when the marker has.
		f.until(t, "the marker", func() bool { return f.files["marker"] == parent })
		put(t, root, parent+"/d/e/f", fmt.Sprint(i))
		f.expect(t, fmt.Sprintf("%s/d/e/f=%d", parent, i), "marker="+parent)
		must(t, os.Remove(filepath.Join(root, "marker")))
		must(t, os.Rename(filepath.Join(root, parent, "d"), filepath.Join(root, "d")))
		f.expect(t, fmt.Sprintf("d/e/f=%d", i))
		f.emitted = nil
	}
}
