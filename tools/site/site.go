package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// start is the page from which links must lead to all others.
const start = "README.md"

// site is the pages of a checkout, in the order in which links lead to them.
type site struct {
	files    fs.FS
	pages    []*page
	byPath   map[string]*page
	byOutput map[string]*page
	images   map[string]bool // paths of the pictures that pages show
	problems []problem
}

// problem is one mistake in a page.
type problem struct {
	path string
	line int
	what string
}

func (p problem) Error() string { return fmt.Sprintf("%s:%d: %s", p.path, p.line, p.what) }

// build reads the pages of a checkout. All mistakes in them are one error, which has a line for each.
func build(files fs.FS) (*site, error) {
	s := &site{files: files, byPath: map[string]*page{}, byOutput: map[string]*page{}, images: map[string]bool{}}
	if err := s.add(start); err != nil {
		return nil, err
	}
	for at := 0; at < len(s.pages); at++ { // Each page may add others.
		if err := s.follow(s.pages[at]); err != nil {
			return nil, err
		}
	}
	for _, page := range s.pages {
		s.point(page)
	}
	if err := s.findOrphans(); err != nil {
		return nil, err
	}
	slices.SortStableFunc(s.problems, func(a, b problem) int {
		return cmp.Or(strings.Compare(a.path, b.path), cmp.Compare(a.line, b.line))
	})
	var all []error
	for _, each := range s.problems {
		all = append(all, each)
	}
	return s, errors.Join(all...)
}

func (s *site) report(page *page, line int, what string, details ...any) {
	s.problems = append(s.problems, problem{page.path, line, fmt.Sprintf(what, details...)})
}

// add reads a page, unless the site has it.
func (s *site) add(name string) error {
	if s.byPath[name] != nil {
		return nil
	}
	content, err := fs.ReadFile(s.files, name)
	if err != nil {
		return fmt.Errorf("reading a page: %w", err)
	}
	added := parse(name, content)
	s.pages = append(s.pages, added)
	s.byPath[name] = added
	s.problems = append(s.problems, added.problems...)
	if other := s.byOutput[added.output()]; other != nil {
		s.report(added, 1, "the page %s becomes %s too; rename one of them", other.path, added.output())
	}
	s.byOutput[added.output()] = added
	return nil
}

// findOrphans reports the documents that no reader finds.
func (s *site) findOrphans() error {
	orphan := func(name string) {
		if path.Ext(name) == ".md" && s.byPath[name] == nil {
			s.problems = append(s.problems, problem{name, 1, "no link leads here from " + start + "; link it from a page that readers find"})
		}
	}
	top, err := fs.ReadDir(s.files, ".")
	if err != nil {
		return fmt.Errorf("listing the checkout: %w", err)
	}
	for _, entry := range top {
		orphan(entry.Name())
	}
	if _, err := fs.Stat(s.files, "docs"); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return fs.WalkDir(s.files, "docs", func(name string, _ fs.DirEntry, err error) error {
		if err == nil {
			orphan(name)
		}
		return err
	})
}
