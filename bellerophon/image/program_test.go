package image_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/bellerophon/image"
)

// module writes a module with one package, and returns its folder.
func module(t *testing.T, path, code string) string {
	t.Helper()
	t.Setenv("GOWORK", "off") // The module is in no workspace.
	folder := t.TempDir()
	for file, content := range map[string]string{"go.mod": "module " + path + "\n\ngo 1.26.0\n", "main.go": code} {
		if err := os.WriteFile(filepath.Join(folder, file), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func TestAnImageOfTheUsersProgramHasItsName(t *testing.T) {
	program, err := image.ProgramIn(t.Context(), module(t, "example.org/team/Shop/v2", "package main\n\nfunc main() {}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if program.Name() != "Shop" || program.Image != "shop:dev" { // The name of an image has no upper case.
		t.Errorf("the program is %s, and its image %s", program.Name(), program.Image)
	}
	built, archive := filepath.Join(t.TempDir(), "built"), filepath.Join(t.TempDir(), "shop.tar")
	if err := program.Compile(t.Context(), built); err != nil {
		t.Fatal(err)
	}
	if _, err := program.Write(built, program.Image, archive); err != nil {
		t.Fatal(err)
	}
	_, config := archived(t, archive, program.Image)
	if config.Config.User != "65532:65532" || strings.Join(config.Config.Entrypoint, " ") != "/Shop" || len(config.Config.Cmd) > 0 {
		t.Errorf("the user is %q, the program %q with the arguments %q", config.Config.User, config.Config.Entrypoint, config.Config.Cmd)
	}
}

func TestAFolderWithoutAProgramIsRefused(t *testing.T) {
	for code, want := range map[string]string{
		"package shop\n":                     "it is package shop, not package main; give the folder of a program",
		"package main\n\nimport \"nowhere\"": "nowhere",
	} {
		folder := module(t, "example.org/shop", code)
		program, err := image.ProgramIn(t.Context(), folder)
		if err == nil {
			err = program.Compile(t.Context(), filepath.Join(t.TempDir(), "built"))
		}
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), folder) {
			t.Errorf("of %q, the error is %v", code, err)
		}
	}
	if _, err := image.ProgramIn(t.Context(), filepath.Join(t.TempDir(), "gone")); err == nil || !strings.Contains(err.Error(), "find the program in") {
		t.Errorf("without a folder, the error is %v", err)
	}
}
