// Package api compares the exported API of the library with the API of the last release. A change that breaks
// programs needs an entry in the changelog.
package api

import (
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"go/token"
	"go/types"
	"io"
	"slices"
	"strings"

	"github.com/bellerophon-io/bellerophon/tools/release/checkout"
	"golang.org/x/exp/apidiff"
	"golang.org/x/tools/go/gcexportdata"
	"golang.org/x/tools/go/packages"
)

// Covered are the packages whose API keeps the promise of docs/versions.md, by their folders.
var Covered = []string{
	"bellerophon/api/hero/v1",
	"bellerophon/api/hero/v1beta7",
	"bellerophon/api/simple/v1",
	"bellerophon/api/simple/v444beta989",
	"cache",
	"controller",
	"controller/compat",
	"controller/dependents",
	"controller/history",
	"controller/introspection",
	"controller/page",
	"controller/pipeline",
	"controller/plans",
	"controller/recording",
	"controller/shards",
	"controller/tracing",
	"controller/webhook",
	"operators",
	"sources",
	"streams",
}

// Load returns the covered packages as they are in the checkout.
func Load(ctx context.Context, source checkout.Checkout) ([]*types.Package, error) {
	var paths []string
	for _, folder := range Covered {
		paths = append(paths, checkout.Library+"/"+folder)
	}
	config := &packages.Config{Context: ctx, Dir: source.Root, Mode: packages.NeedName | packages.NeedTypes | packages.NeedExportFile | packages.NeedImports}
	loaded, err := packages.Load(config, paths...)
	if err != nil {
		return nil, fmt.Errorf("load the packages: %w", err)
	}
	var all []*types.Package
	for _, each := range loaded {
		for _, problem := range each.Errors {
			err = errors.Join(err, fmt.Errorf("load %s: %w", each.PkgPath, problem))
		}
		all = append(all, each.Types)
	}
	return all, err
}

// Write writes packages to a file that [Read] reads, whatever version of Go there is then.
func Write(out io.Writer, all []*types.Package) error {
	zipped, err := gzip.NewWriterLevel(out, gzip.BestCompression)
	if err != nil {
		return err
	}
	if err := gcexportdata.WriteBundle(zipped, token.NewFileSet(), all); err != nil {
		return fmt.Errorf("write the packages: %w", err)
	}
	return zipped.Close()
}

// Read reads packages that [Write] wrote.
func Read(in io.Reader) ([]*types.Package, error) {
	zipped, err := gzip.NewReader(in)
	if err != nil {
		return nil, fmt.Errorf("read the packages: %w", err)
	}
	all, err := gcexportdata.ReadBundle(zipped, token.NewFileSet(), map[string]*types.Package{})
	if err != nil {
		return nil, fmt.Errorf("read the packages: %w", err)
	}
	return all, nil
}

// Change is a change that breaks programs.
type Change struct {
	Name string // as it is written in the changelog, such as controller.Manager.Add
	What string
}

func (c Change) String() string { return c.Name + ": " + c.What }

// Incompatible returns the changes that break programs, in the order of their names.
func Incompatible(before, now []*types.Package) []Change {
	var found []Change
	for _, old := range before {
		folder := strings.TrimPrefix(old.Path(), checkout.Library+"/")
		at := slices.IndexFunc(now, func(p *types.Package) bool { return p.Path() == old.Path() })
		if at < 0 {
			found = append(found, Change{folder, "the package is removed"})
			continue
		}
		for _, change := range apidiff.Changes(old, now[at]).Changes {
			if !change.Compatible {
				name, what, _ := strings.Cut(change.Message, ": ")
				found = append(found, Change{folder + "." + strings.NewReplacer("(*", "", "(", "", ")", "").Replace(name), what})
			}
		}
	}
	slices.SortFunc(found, func(a, b Change) int { return cmp.Compare(a.String(), b.String()) })
	return found
}

// Unrecorded returns the changes that the part Unreleased of a changelog does not name.
func Unrecorded(changes []Change, changelog string) []Change {
	_, unreleased, _ := strings.Cut("\n"+changelog, "\n## Unreleased\n")
	unreleased, _, _ = strings.Cut(unreleased, "\n## ")
	return slices.DeleteFunc(slices.Clone(changes), func(c Change) bool { return strings.Contains(unreleased, "`"+c.Name+"`") })
}
