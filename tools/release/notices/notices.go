// Package notices gathers the licences of the modules that a program is built with.
package notices

import (
	"bytes"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/bellerophon-io/bellerophon/tools/release/checkout"
	"github.com/google/licensecheck"
	"golang.org/x/mod/module"
)

const (
	// recognized is the least percentage of a file that has to be the text of a known licence.
	recognized = 75
	// refused are the kinds of licences under which a program with the licence of Bellerophon cannot be passed on.
	refused = licensecheck.ShareProgram | licensecheck.ShareServer | licensecheck.NonCommercial | licensecheck.Discouraged
)

// texts matches the names of files with licences and notices.
var texts = regexp.MustCompile(`(?i)^(licen[cs]e|copying|copyright|notice|patents)([._-].*)?$`)

// text is a file with a licence, and where it is.
type text struct {
	content string
	files   []string
}

// Of returns the licences of a program, as a text for its users. modules is the module cache that it was built from, and
// goRoot has the standard library. It fails for a module without a known licence.
func Of(program, modules, goRoot string) (string, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return "", fmt.Errorf("read the modules of %s: %w", program, err)
	}
	var list strings.Builder
	var all []text
	var failed []error
	add := func(name, folder string) {
		licences, found, err := read(name, folder)
		if err != nil {
			failed = append(failed, fmt.Errorf("licence of %s: %w", name, err))
			return
		}
		fmt.Fprintf(&list, "%s: %s\n", name, strings.Join(licences, ", "))
		all = merge(all, found)
	}
	add("Go "+strings.TrimPrefix(info.GoVersion, "go"), goRoot)
	for _, each := range info.Deps {
		if strings.HasPrefix(each.Path+"/", checkout.Library+"/") {
			continue
		}
		folder, err := folderOf(module.Version{Path: each.Path, Version: each.Version})
		if err != nil {
			return "", err
		}
		add(each.Path+"@"+each.Version, filepath.Join(modules, folder))
	}
	var out strings.Builder
	fmt.Fprintf(&out, "This program contains the following software of others. The Go module proxy has the source of each module.\n\n%s", list.String())
	for _, each := range all {
		fmt.Fprintf(&out, "\n%s\n%s\n\n%s\n", strings.Repeat("=", 80), strings.Join(each.files, "\n"), strings.Trim(each.content, "\n"))
	}
	return out.String(), errors.Join(failed...)
}

func folderOf(of module.Version) (string, error) {
	path, err := module.EscapePath(of.Path)
	if err != nil {
		return "", err
	}
	version, err := module.EscapeVersion(of.Version)
	return filepath.FromSlash(path) + "@" + version, err
}

// read returns the names of the licences in a module's root, and all texts of the module. A copy of other software has
// its text in a subfolder.
func read(name, folder string) (licences []string, all []text, err error) {
	err = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && entry.Name() == "testdata":
			return filepath.SkipDir
		case entry.IsDir() || !texts.MatchString(entry.Name()) || filepath.Ext(path) == ".go":
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		all = append(all, text{string(bytes.ReplaceAll(content, []byte("\r\n"), []byte("\n"))), []string{name + "/" + filepath.ToSlash(relative)}})
		if filepath.Dir(relative) != "." {
			return nil
		}
		covered := licensecheck.Scan(content)
		for _, match := range covered.Match {
			if match.Type&refused != 0 {
				return fmt.Errorf("%s has the licence %s, under which this program cannot be passed on; do without the module", relative, match.ID)
			}
			if covered.Percent >= recognized && !match.IsURL && !slices.Contains(licences, match.ID) {
				licences = append(licences, match.ID)
			}
		}
		return nil
	})
	if err == nil && len(licences) == 0 {
		err = fmt.Errorf("%s has no file with a known licence; look at it, or do without the module", folder)
	}
	slices.Sort(licences)
	return licences, all, err
}

// merge adds texts to others. Equal texts become one with several files.
func merge(all, more []text) []text {
	for _, each := range more {
		at := slices.IndexFunc(all, func(t text) bool { return t.content == each.content })
		if at < 0 {
			all = append(all, each)
			continue
		}
		all[at].files = append(all[at].files, each.files...)
	}
	return all
}
