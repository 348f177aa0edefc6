package contender

import (
	"path/filepath"
	"testing"
)

// built returns a program in a folder.
func built(t *testing.T, folder, content string, change func(*Program)) *Program {
	t.Helper()
	program := &Program{Contender: Contender{Name: "peer", recipe: mavenProgram{jar: "run.jar"}}, path: folder}
	write(t, filepath.Join(folder, "bin", "run.jar"), content)
	if change != nil {
		change(program)
	}
	if err := program.identify(); err != nil {
		t.Fatal(err)
	}
	return program
}

func TestWhoHasPassedIsKnownAsTheVeryProgramThatItWas(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	folder := t.TempDir()
	program := built(t, folder, "first", nil)
	knows := func(p *Program, suite string) bool {
		t.Helper()
		passed, err := p.Passed(suite)
		if err != nil {
			t.Fatal(err)
		}
		return passed
	}
	if knows(program, "suite") {
		t.Error("it has passed before NotePassed was called")
	}
	if err := program.NotePassed("suite"); err != nil {
		t.Fatal(err)
	}
	if !knows(program, "suite") || !knows(built(t, folder, "first", nil), "suite") {
		t.Error("the note that it has passed is lost")
	}
	if !knows(built(t, t.TempDir(), "first", nil), "suite") {
		t.Error("the same program elsewhere has not passed")
	}
	if knows(program, "another suite") {
		t.Error("it has passed a suite that it was not noted for")
	}
	for name, changed := range map[string]*Program{
		"name":      built(t, folder, "first", func(p *Program) { p.Name = "another" }),
		"arguments": built(t, folder, "first", func(p *Program) { p.recipe = mavenProgram{jar: "another.jar"} }),
		"files":     built(t, folder, "second", nil),
	} {
		if knows(changed, "suite") {
			t.Errorf("a program with another %s has also passed", name)
		}
	}
}
