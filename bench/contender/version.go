package contender

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// goVersion returns the versions of a library and of Go that a program was built with. Without a
// library, it returns the commit of the checkout.
func goVersion(ctx context.Context, b *builder, program, library string) (string, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return "", fmt.Errorf("read the version of %s: %w", program, err)
	}
	versions := map[string]string{}
	for _, dependency := range info.Deps {
		versions[dependency.Path] = dependency.Version
	}
	name := filepath.Base(library)
	version := versions[library]
	if library == "" {
		name = filepath.Base(modulePath)
		if version, err = firstLineOf(ctx, b.root, "git", "describe", "--always", "--dirty"); err != nil {
			version = "devel" // A checkout without history, or a machine without git.
		}
	}
	return fmt.Sprintf("%s %s, client-go %s, %s", name, version, versions["k8s.io/client-go"], info.GoVersion), nil
}

// cargoVersion returns the version of a crate from the lock file, and the version of the
// compiler.
func cargoVersion(ctx context.Context, b *builder, folder, crate string) (string, error) {
	lock, err := os.ReadFile(filepath.Join(b.root, folder, "Cargo.lock"))
	if err != nil {
		return "", err
	}
	found := regexp.MustCompile(`(?m)^name = "` + regexp.QuoteMeta(crate) + `"\nversion = "([^"]+)"`).FindSubmatch(lock)
	if found == nil {
		return "", fmt.Errorf("%s/Cargo.lock does not name the crate %s", folder, crate)
	}
	compiler, err := firstLineOf(ctx, filepath.Join(b.root, folder), "rustc", "--version")
	return fmt.Sprintf("%s %s, %s", crate, found[1], compiler), err
}

// mavenVersion returns the versions of libraries, from the names of the jars in a folder, and the
// version of Java.
func mavenVersion(ctx context.Context, b *builder, program string, libraries []string) (string, error) {
	var names []string
	err := filepath.WalkDir(program, func(path string, _ fs.DirEntry, err error) error {
		names = append(names, filepath.Base(path))
		return err
	})
	if err != nil {
		return "", fmt.Errorf("read the versions of %s: %w", program, err)
	}
	var versions []string
	for _, library := range libraries {
		pattern := regexp.MustCompile(`(?:^|\.)` + regexp.QuoteMeta(library) + `-(\d.*)\.jar$`)
		for _, name := range names {
			if found := pattern.FindStringSubmatch(name); found != nil {
				versions = append(versions, library+" "+found[1])
				break
			}
		}
	}
	machine, err := firstLineOf(ctx, b.root, "java", "-version")
	return strings.Join(append(versions, machine), ", "), err
}

func firstLineOf(ctx context.Context, directory, name string, arguments ...string) (string, error) {
	command := exec.CommandContext(ctx, name, arguments...)
	command.Dir = directory
	output, err := command.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("get the version of %s: %w", name, err)
	}
	line, _, _ := bytes.Cut(output, []byte("\n"))
	return strings.TrimSpace(string(line)), nil
}
