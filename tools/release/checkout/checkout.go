// Package checkout reads the modules, files and commit of a checkout of Bellerophon.
package checkout

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
)

// Library is the path of the library's module. The paths of the other modules start with it.
const Library = "github.com/bellerophon-io/bellerophon"

// Published are the folders of the modules that a release contains.
var Published = []string{".", "bellerophon", "controller/compat", "controller/tracing"}

// Checkout is a checkout of Bellerophon.
type Checkout struct {
	Root string // the folder of the library's module
}

// Find returns the checkout that the working directory is in.
func Find(ctx context.Context) (Checkout, error) {
	root, err := git(ctx, ".", "rev-parse", "--show-toplevel")
	if err != nil {
		return Checkout{}, fmt.Errorf("find the checkout: %w; run it in a clone of %s", err, Library)
	}
	found := Checkout{Root: strings.TrimSpace(root)}
	if path, err := found.moduleFile("."); err != nil || path.Module.Mod.Path != Library {
		return Checkout{}, fmt.Errorf("find the checkout: %s is no clone of %s; run it in one", found.Root, Library)
	}
	return found, nil
}

// Files returns the files below a folder, relative to it: the tracked files, and new ones that git does not ignore.
func (c Checkout) Files(ctx context.Context, folder string) ([]string, error) {
	listed, err := git(ctx, filepath.Join(c.Root, folder), "ls-files", "-z", "--deduplicate", "--cached", "--others", "--exclude-standard")
	if err != nil {
		return nil, fmt.Errorf("list the files of %s: %w", folder, err)
	}
	var files []string
	for _, file := range strings.Split(strings.TrimSuffix(listed, "\x00"), "\x00") {
		if _, err := os.Lstat(filepath.Join(c.Root, folder, file)); err == nil { // A deleted file stays in the index.
			files = append(files, file)
		}
	}
	return files, nil
}

// Committed returns an error if files differ from the commit that is checked out.
func (c Checkout) Committed(ctx context.Context) error {
	changed, err := git(ctx, c.Root, "status", "--porcelain")
	if err != nil {
		return fmt.Errorf("compare the files with the commit: %w", err)
	}
	if changed != "" {
		return fmt.Errorf("these files differ from the commit; commit them, as a release has only what is committed:\n%s", strings.TrimRight(changed, "\n"))
	}
	return nil
}

// Commit returns the commit that is checked out.
func (c Checkout) Commit(ctx context.Context) (string, error) {
	said, err := git(ctx, c.Root, "rev-parse", "HEAD")
	if err != nil {
		return "", fmt.Errorf("find the commit of the checkout: %w", err)
	}
	return strings.TrimSpace(said), nil
}

// CommitTime returns the time of the commit that is checked out.
func (c Checkout) CommitTime(ctx context.Context) (time.Time, error) {
	at, err := git(ctx, c.Root, "log", "-1", "--format=%cI")
	if err != nil {
		return time.Time{}, fmt.Errorf("read the time of the commit: %w", err)
	}
	return time.Parse(time.RFC3339, strings.TrimSpace(at))
}

// Module returns the go.mod of a folder, if a published module can be installed with it: it requires the other
// published modules in the same version, and has no directive that `go install` refuses.
func (c Checkout) Module(folder, version string) (*modfile.File, error) {
	file, err := c.moduleFile(folder)
	if err != nil {
		return nil, err
	}
	name := filepath.Join(folder, "go.mod")
	if len(file.Replace) > 0 || len(file.Exclude) > 0 {
		return nil, fmt.Errorf("%s has a replace or an exclude directive, which `go install` refuses; remove it", name)
	}
	for _, require := range file.Require {
		if isOurs(require.Mod.Path) && require.Mod.Version != version {
			return nil, fmt.Errorf("%s requires %s, but the release is %s; run `make require VERSION=%s`, and commit that", name, require.Mod, version, version)
		}
	}
	return file, nil
}

// Require makes all modules of the checkout require a version of the published modules.
func (c Checkout) Require(ctx context.Context, version string) error {
	files, err := c.Files(ctx, ".")
	if err != nil {
		return err
	}
	for _, name := range files {
		if filepath.Base(name) != "go.mod" {
			continue
		}
		file, err := c.moduleFile(filepath.Dir(name))
		if err != nil {
			return err
		}
		changed := false
		for _, require := range file.Require {
			if isOurs(require.Mod.Path) && require.Mod.Version != version {
				changed = true
				if err := file.AddRequire(require.Mod.Path, version); err != nil {
					return fmt.Errorf("change %s: %w", name, err)
				}
			}
		}
		if !changed {
			continue
		}
		content, err := file.Format()
		if err != nil {
			return fmt.Errorf("change %s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(c.Root, name), content, 0o644); err != nil {
			return fmt.Errorf("change %s: %w", name, err)
		}
	}
	return nil
}

func (c Checkout) moduleFile(folder string) (*modfile.File, error) {
	name := filepath.Join(c.Root, folder, "go.mod")
	content, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read a module: %w", err)
	}
	file, err := modfile.Parse(name, content, nil)
	if err != nil {
		return nil, fmt.Errorf("read a module: %w", err)
	}
	return file, nil
}

func isOurs(module string) bool { return module == Library || strings.HasPrefix(module, Library+"/") }

func git(ctx context.Context, folder string, arguments ...string) (string, error) {
	command := exec.CommandContext(ctx, "git", arguments...)
	command.Dir = folder
	var trouble bytes.Buffer
	command.Stderr = &trouble
	said, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", arguments[0], err, strings.TrimSpace(trouble.String()))
	}
	return string(said), nil
}
