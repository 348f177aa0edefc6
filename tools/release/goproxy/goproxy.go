// Package goproxy installs programs of a version before it is published. It writes the published modules of a
// checkout to a folder, which the go command takes as a module proxy.
package goproxy

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/bellerophon-io/bellerophon/tools/release/checkout"
	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
	"golang.org/x/mod/zip"
)

// license is in the root of the checkout only. The go command adds it to each module of a subfolder.
const license = "LICENSE"

// CheckVersion returns an error if a release cannot have a version.
func CheckVersion(version string) error {
	if semver.Canonical(version) != version {
		return fmt.Errorf("the version is %q; it has to be a semantic version such as v0.1.0", version)
	}
	return nil
}

// Write writes the published modules to a folder, as the given version.
func Write(ctx context.Context, source checkout.Checkout, version, folder string) error {
	if err := CheckVersion(version); err != nil {
		return err
	}
	for _, published := range checkout.Published {
		if err := writeModule(ctx, source, published, version, folder); err != nil {
			return err
		}
	}
	return nil
}

func writeModule(ctx context.Context, source checkout.Checkout, published, version, folder string) error {
	parsed, err := source.Module(published, version)
	if err != nil {
		return err
	}
	self := module.Version{Path: parsed.Module.Mod.Path, Version: version}
	if err := module.Check(self.Path, self.Version); err != nil {
		return fmt.Errorf("the version does not fit the module: %w", err)
	}
	escaped, err := module.EscapePath(self.Path)
	if err != nil {
		return err
	}
	versions := filepath.Join(folder, filepath.FromSlash(escaped), "@v")
	if err := os.MkdirAll(versions, 0o755); err != nil {
		return fmt.Errorf("write %s: %w", self, err)
	}
	definition, err := os.ReadFile(filepath.Join(source.Root, published, "go.mod"))
	if err != nil {
		return fmt.Errorf("write %s: %w", self, err)
	}
	info, err := json.Marshal(struct{ Version string }{version})
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{"list": []byte(version + "\n"), version + ".info": info, version + ".mod": definition} {
		if err := os.WriteFile(filepath.Join(versions, name), content, 0o644); err != nil {
			return fmt.Errorf("write %s: %w", self, err)
		}
	}
	return writeZip(ctx, source, published, self, filepath.Join(versions, version+".zip"))
}

// writeZip writes the files of a module. The zip has no times, so the same files give the same bytes.
func writeZip(ctx context.Context, source checkout.Checkout, published string, self module.Version, name string) error {
	names, err := source.Files(ctx, published)
	if err != nil {
		return err
	}
	var files []zip.File
	for _, each := range names {
		files = append(files, file{each, filepath.Join(source.Root, published, each)})
	}
	if !slices.Contains(names, license) {
		files = append(files, file{license, filepath.Join(source.Root, license)})
	}
	archive, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("write %s: %w", self, err)
	}
	defer archive.Close()
	if err := zip.Create(archive, self, files); err != nil { // It leaves out the files of modules in subfolders.
		return fmt.Errorf("write %s: %w", self, err)
	}
	return archive.Close()
}

// file is a file of a module, by its path there.
type file struct{ path, source string }

func (f file) Path() string                 { return filepath.ToSlash(f.path) }
func (f file) Lstat() (os.FileInfo, error)  { return os.Lstat(f.source) }
func (f file) Open() (io.ReadCloser, error) { return os.Open(f.source) }
