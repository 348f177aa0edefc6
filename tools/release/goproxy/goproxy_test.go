package goproxy

import (
	"archive/zip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/tools/release/checkout"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const version = "v0.1.0"

func TestAReleaseIsInstalledAndImportedFromAProxy(t *testing.T) {
	source, err := checkout.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	installer, err := NewInstaller(t.Context(), source, version, t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}

	t.Run("the command prints the version of its module", func(t *testing.T) {
		program, err := installer.Install(t.Context(), "bellerophon", Platform{runtime.GOOS, runtime.GOARCH})
		if err != nil {
			t.Fatal(err)
		}
		said, err := exec.CommandContext(t.Context(), program, "--version").CombinedOutput()
		if want := "bellerophon version " + version + " " + runtime.Version() + " "; err != nil || !strings.HasPrefix(string(said), want) {
			t.Errorf("bellerophon --version prints %q, %v; want %q at the beginning", said, err, want)
		}
	})

	t.Run("a program gets the modules that it imports", func(t *testing.T) {
		imports := []string{"controller", "controller/compat", "controller/tracing"}
		folder := t.TempDir()
		write(t, filepath.Join(folder, "main.go"), "package main\n\nimport (\n\t_ \""+checkout.Library+"/"+strings.Join(imports, "\"\n\t_ \""+checkout.Library+"/")+"\"\n)\n\nfunc main() {}\n")
		write(t, filepath.Join(folder, "go.mod"), "module example.org/program\n\ngo 1.26.0\n\nrequire (\n\t"+checkout.Library+" "+version+"\n\t"+
			checkout.Library+"/controller/compat "+version+"\n\t"+checkout.Library+"/controller/tracing "+version+"\n)\n")
		command := exec.CommandContext(t.Context(), "go", "list", "-mod=mod", "-deps", ".")
		command.Dir, command.Env = folder, append(command.Environ(), installer.setting...)
		var trouble strings.Builder
		command.Stderr = &trouble
		listed, err := command.Output()
		if err != nil {
			t.Fatalf("go list: %v\n%s", err, trouble.String())
		}
		for _, imported := range imports {
			if !slices.Contains(strings.Fields(string(listed)), checkout.Library+"/"+imported) {
				t.Errorf("the program does not get %s", imported)
			}
		}
	})
}

func TestAModuleThatCannotBeInstalledIsRefused(t *testing.T) {
	require := "require " + checkout.Library + " v0.1.0\n"
	for name, test := range map[string]struct{ version, nested, want string }{
		"a replace":                      {version, require + "replace " + checkout.Library + " => ../\n", "bellerophon/go.mod has a replace or an exclude directive"},
		"an exclude":                     {version, require + "exclude example.org/a v1.0.0\n", "bellerophon/go.mod has a replace or an exclude directive"},
		"another version of the library": {"v0.2.0", require, "bellerophon/go.mod requires " + checkout.Library + "@v0.1.0, but the release is v0.2.0"},
		"no v":                           {"0.1.0", require, `the version is "0.1.0"`},
		"a short version":                {"v0.1", require, `the version is "v0.1"`},
		"a build":                        {"v0.1.0+dirty", require, `the version is "v0.1.0+dirty"`},
		"another major version":          {"v2.0.0", "", "the version does not fit the module"},
	} {
		t.Run(name, func(t *testing.T) {
			err := Write(t.Context(), repository(t, test.nested), test.version, t.TempDir())
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("the error is %v, want %q in it", err, test.want)
			}
		})
	}
}

func TestAModuleHasItsOwnFilesOnly(t *testing.T) {
	source, proxy := repository(t, "require "+checkout.Library+" v0.1.0\n"), t.TempDir()
	if err := Write(t.Context(), source, version, proxy); err != nil {
		t.Fatal(err)
	}
	again := t.TempDir()
	if err := Write(t.Context(), source, version, again); err != nil {
		t.Fatal(err)
	}
	for module, want := range map[string][]string{
		checkout.Library:                  {"LICENSE", "go.mod"}, // Neither bin nor the modules below.
		checkout.Library + "/bellerophon": {"LICENSE", "go.mod", "main.go"},
	} {
		name := filepath.Join(filepath.FromSlash(module), "@v", version+".zip")
		if got := filesOf(t, filepath.Join(proxy, name), module+"@"+version+"/"); !slices.Equal(got, want) {
			t.Errorf("%s has the files %q, want %q", module, got, want)
		}
		if read(t, filepath.Join(proxy, name)) != read(t, filepath.Join(again, name)) {
			t.Errorf("%s is another one the second time", name)
		}
	}
}

// repository makes a checkout whose module bellerophon has the given directives.
func repository(t *testing.T, nested string) checkout.Checkout {
	t.Helper()
	root := t.TempDir()
	if said, err := exec.CommandContext(t.Context(), "git", "init", "--quiet", root).CombinedOutput(); err != nil {
		t.Fatalf("git init: %v: %s", err, said)
	}
	for _, folder := range checkout.Published {
		module, directives := checkout.Library+"/"+folder, ""
		switch folder {
		case ".":
			module = checkout.Library
		case "bellerophon":
			directives = nested
		}
		write(t, filepath.Join(root, folder, "go.mod"), "module "+module+"\n\ngo 1.26.0\n\n"+directives)
	}
	write(t, filepath.Join(root, "LICENSE"), "licence\n")
	write(t, filepath.Join(root, "bellerophon", "main.go"), "package main\n")
	write(t, filepath.Join(root, "bin", "program"), "ignored\n")
	write(t, filepath.Join(root, ".git", "info", "exclude"), "/bin/\n")
	return checkout.Checkout{Root: root}
}

func filesOf(t *testing.T, archive, prefix string) (names []string) {
	t.Helper()
	files, err := zip.OpenReader(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	for _, file := range files.File {
		names = append(names, strings.TrimPrefix(file.Name, prefix))
	}
	slices.Sort(names)
	return names
}

func write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
