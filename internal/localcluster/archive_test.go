package localcluster

import (
	"archive/zip"
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var updateArchive = flag.Bool("update-archive", false, "write source.zip from the nested modules")

// archiveOf makes the archive of the nested modules of a checkout. The same source makes the same archive.
func archiveOf(t *testing.T, root string) []byte {
	t.Helper()
	var made bytes.Buffer
	writer := zip.NewWriter(&made)
	for _, module := range nested {
		files, err := moduleFiles(filepath.Join(root, module))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range files {
			relative, err := filepath.Rel(root, path)
			if err != nil {
				t.Fatal(err)
			}
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			file, err := writer.Create(filepath.ToSlash(relative))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := file.Write(content); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return made.Bytes()
}

func TestTheArchiveHasTheSource(t *testing.T) {
	checkout, err := findSource(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if *updateArchive {
		if err := os.WriteFile("source.zip", archiveOf(t, checkout.root), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	cache := t.TempDir()
	t.Chdir(cache) // It is no checkout.
	for range 2 {
		written, err := findSource(cache)
		if err != nil {
			t.Fatal(err)
		}
		for _, minor := range versionsOf(t, checkout) {
			wanted := hashOf(t, checkout, minor)
			if found := hashOf(t, written, minor); found != wanted {
				t.Errorf("for Kubernetes %s the archive has the hash %s, and tools/ has %s; make the archive anew with -update-archive", minor, found, wanted)
			}
		}
	}
}
