package localcluster

import (
	"os"
	"path/filepath"
	"testing"
)

func TestTheHashChangesWithTheSourceOfTheBinariesAlone(t *testing.T) {
	root := t.TempDir()
	for _, module := range nested {
		for _, name := range []string{"go.mod", "go.sum", "main.go", "README.md"} {
			write(t, filepath.Join(root, module, name), name, 0o644)
		}
	}
	hash := func() string {
		t.Helper()
		hash, err := source{root: root}.hash()
		if err != nil {
			t.Fatal(err)
		}
		return hash
	}
	before := hash()
	for _, module := range nested {
		for name, changes := range map[string]bool{"go.mod": true, "go.sum": true, "main.go": true, "README.md": false} {
			path := filepath.Join(root, module, name)
			write(t, path, "changed", 0o644)
			if changed := hash() != before; changed != changes {
				t.Errorf("after a change of %s the hash is another: %v, want %v", path, changed, changes)
			}
			write(t, path, name, 0o644)
		}
	}
	if hash() != before {
		t.Error("the same files have another hash")
	}
	moved := t.TempDir()
	if err := os.CopyFS(moved, os.DirFS(root)); err != nil {
		t.Fatal(err)
	}
	root = moved
	if hash() != before {
		t.Error("the same files in another place have another hash")
	}
}

func TestTheCheckoutIsFoundFromWithin(t *testing.T) {
	checkout, err := findSource(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Join(checkout.root, nested[0])) // The nested module has its own go.mod.
	if again, err := findSource(t.TempDir()); err != nil || again != checkout {
		t.Errorf("from a nested module: %v, %v, want %v", again, err, checkout)
	}
}
