package contender

import (
	"archive/zip"
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

// goVersion reads off a program the versions of a library, or else of its main module,
// and of Go.
func goVersion(program, library string) (string, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return "", fmt.Errorf("reading the version of %s: %w", program, err)
	}
	versions := map[string]string{info.Main.Path: info.Main.Version}
	for _, dependency := range info.Deps {
		versions[dependency.Path] = dependency.Version
	}
	if library == "" {
		library = info.Main.Path
	}
	text := filepath.Base(library) + " " + versions[library]
	if client := versions["k8s.io/client-go"]; client != "" {
		text += ", client-go " + client
	}
	return text + ", " + info.GoVersion, nil
}

// cargoVersion reads the version of a crate off the lock file.
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

// mavenVersion finds libraries among the jars of a folder, by their names, or within one
// jar that has all in it, by what Maven says there of each.
func mavenVersion(ctx context.Context, b *builder, program string, libraries []string) (string, error) {
	var names []string
	info, err := os.Stat(program)
	if err != nil {
		return "", err
	}
	if info.IsDir() {
		err = filepath.WalkDir(program, func(path string, _ fs.DirEntry, err error) error {
			names = append(names, filepath.Base(path))
			return err
		})
	} else {
		names, err = jarsWithin(program)
	}
	if err != nil {
		return "", fmt.Errorf("reading the versions of %s: %w", program, err)
	}
	var versions []string
	for _, library := range libraries {
		pattern := regexp.MustCompile(`(?:^|\.)` + regexp.QuoteMeta(library) + `-(\d[^/]*)\.jar$`)
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

// jarsWithin names, as their files were called, the jars that were joined to one.
func jarsWithin(jar string) (names []string, err error) {
	archive, err := zip.OpenReader(jar)
	if err != nil {
		return nil, err
	}
	defer func() { _ = archive.Close() }()
	for _, file := range archive.File {
		if filepath.Base(file.Name) != "pom.properties" {
			continue
		}
		content, err := fs.ReadFile(archive, file.Name)
		if err != nil {
			return nil, err
		}
		properties := map[string]string{}
		for line := range strings.Lines(string(content)) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			properties[key] = value
		}
		names = append(names, properties["artifactId"]+"-"+properties["version"]+".jar")
	}
	return names, nil
}

func firstLineOf(ctx context.Context, directory, name string, arguments ...string) (string, error) {
	command := exec.CommandContext(ctx, name, arguments...)
	command.Dir = directory
	output, err := command.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("asking %s for its version: %w", name, err)
	}
	line, _, _ := bytes.Cut(output, []byte("\n"))
	return strings.TrimSpace(string(line)), nil
}
