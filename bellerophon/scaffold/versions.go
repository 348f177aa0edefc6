package scaffold

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
)

// libraryPath is the path of the module that the project imports.
const libraryPath = "github.com/bellerophon-io/bellerophon"

// versions are the modules that the project requires, and the Go that they need. A test compares the constants with
// the go.mod files that they come from.
type versions struct {
	Go              string
	LibraryPath     string
	Library         string
	Kubernetes      string
	ControllerTools string
	Checkout        string // the folder that replaces the library; empty for none
}

var tested = versions{Go: "1.26.0", LibraryPath: libraryPath, Kubernetes: "v0.37.2", ControllerTools: "v0.23.0"}

// currentVersions returns the versions that this program was built with. A development build has no version that a go
// command could download, so its project uses a checkout: a given one, or the one that the program was built from.
func currentVersions(checkout string) (versions, error) {
	current := tested
	info, _ := debug.ReadBuildInfo()
	if current.Library = releasedLibrary(info); current.Library != "" && checkout == "" {
		return current, nil
	}
	current.Library = "v0.0.0"
	if checkout == "" {
		if checkout = builtFrom(); checkout == "" {
			return versions{}, errors.New("this is a development build, and the checkout that it was built from is not there; give the folder of a checkout with --checkout")
		}
	}
	checkout, err := filepath.Abs(checkout)
	if err != nil {
		return versions{}, fmt.Errorf("find the checkout: %w", err)
	}
	if !isCheckout(checkout) {
		return versions{}, fmt.Errorf("%s has no go.mod of the module %s; give the folder of a checkout with --checkout", checkout, libraryPath)
	}
	current.Checkout = checkout
	return current, nil
}

var version = regexp.MustCompile(`^v[0-9]`)

// releasedLibrary returns the version of the library in a program, or "" for a development build.
func releasedLibrary(info *debug.BuildInfo) string {
	if info == nil {
		return ""
	}
	for _, module := range info.Deps {
		if module.Path == libraryPath && module.Replace == nil && version.MatchString(module.Version) && module.Version != "v0.0.0" {
			return module.Version
		}
	}
	return ""
}

// builtFrom returns the folder of the checkout that the program was built from, or "". A program that was built with
// -trimpath has no such folder.
func builtFrom() string {
	_, file, _, ok := runtime.Caller(0)
	root := filepath.Join(filepath.Dir(file), "..", "..")
	if !ok || !filepath.IsAbs(file) || !isCheckout(root) {
		return ""
	}
	return root
}

var moduleLine = regexp.MustCompile(`(?m)^module ` + regexp.QuoteMeta(libraryPath) + `$`)

// isCheckout reports whether a folder has the library's go.mod.
func isCheckout(folder string) bool {
	content, err := os.ReadFile(filepath.Join(folder, "go.mod"))
	return err == nil && moduleLine.Match(content)
}
