package conformance

import (
	"io/fs"
	"testing"
	"testing/fstest"
)

func TestTheVersionOfTheSuiteChangesWithAllThatItChecksAndNotWithItsTests(t *testing.T) {
	files := fstest.MapFS{"run.go": {Data: []byte("a")}, "children.yaml": {Data: []byte("b")}, "run_test.go": {Data: []byte("c")}}
	before := versionOf(files)
	for name, changes := range map[string]bool{"run.go": true, "children.yaml": true, "run_test.go": false} {
		held := files[name]
		files[name] = &fstest.MapFile{Data: []byte("changed")}
		if changed := versionOf(files) != before; changed != changes {
			t.Errorf("with a changed %s the version changes: %v, want %v", name, changed, changes)
		}
		files[name] = held
	}
	for _, name := range []string{"check_creation.go", "run.go", "children.yaml"} {
		if _, err := fs.Stat(source, name); err != nil {
			t.Errorf("%s is not in the version: %v", name, err)
		}
	}
}
