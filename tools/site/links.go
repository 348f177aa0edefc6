package main

import (
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// repository is the address of the files that are not part of the site.
const repository = "https://github.com/bellerophon-io/bellerophon"

// pictures are the extensions of images that browsers show.
var pictures = []string{".gif", ".jpeg", ".jpg", ".png", ".svg", ".webp"}

// follow adds the pages that links of a page lead to. Other links get their final address.
func (s *site) follow(from *page) error {
	for _, link := range from.links {
		wrong := s.resolve(from, link)
		if wrong != "" {
			s.report(from, link.line, "%s", wrong)
		}
		if link.target != "" {
			if err := s.add(link.target); err != nil {
				return err
			}
		}
	}
	return nil
}

// resolve finds what a link leads to. It returns what is wrong with the link, or nothing.
func (s *site) resolve(from *page, link *link) (wrong string) {
	written := string(*link.destination)
	address, err := url.Parse(written)
	if err != nil {
		return fmt.Sprintf("the address %q cannot be read: %v", written, err)
	}
	name := path.Join(path.Dir(from.path), address.Path)
	switch own := ownPath(written); {
	case own != "" && !link.image:
		name = path.Clean(own)
	case address.Scheme != "" || address.Host != "":
		return outside(address, link.image)
	case strings.HasPrefix(address.Path, "/"):
		return fmt.Sprintf("the address %q starts at the root; write it relative to the page", written)
	case address.RawQuery != "":
		return fmt.Sprintf("the address %q has a query, which files do not have", written)
	case address.Path == "" && address.Fragment == "":
		return "the link has no address"
	case address.Path == "":
		name = from.path
	}
	info, err := fs.Stat(s.files, name)
	switch {
	case !filepath.IsLocal(name):
		return fmt.Sprintf("the address %q leads out of the checkout", written)
	case err != nil:
		return fmt.Sprintf("there is no %s; correct the address %q", name, written)
	case link.image:
		return s.show(from, link, name, info)
	case info.IsDir():
		readme := path.Join(name, "README.md")
		if _, err := fs.Stat(s.files, readme); err != nil {
			*link.destination = []byte(repository + "/tree/main/" + name)
			return withoutFragment(address, name)
		}
		name = readme
	case path.Ext(name) != ".md":
		*link.destination = []byte(repository + "/blob/main/" + (&url.URL{Path: name}).EscapedPath())
		return withoutFragment(address, name)
	}
	link.target, link.fragment = name, address.Fragment
	return ""
}

// ownPath returns the path from the root, with the fragment left out, of an address of the repository's main branch.
func ownPath(written string) string {
	for _, kind := range []string{"/blob/main/", "/tree/main/"} {
		if name, is := strings.CutPrefix(written, repository+kind); is {
			name, _, _ = strings.Cut(name, "#")
			return name
		}
	}
	return ""
}

// outside reports what is wrong with an address on the internet. Nothing asks for it: the check needs no network.
func outside(address *url.URL, image bool) (wrong string) {
	switch {
	case image:
		return fmt.Sprintf("the image %s needs the network; put a copy beside the page", address)
	case address.Scheme == "mailto" || (address.Scheme == "https" || address.Scheme == "http") && address.Host != "":
		return ""
	}
	return fmt.Sprintf("the address %s is neither http, https nor mailto", address)
}

// show notes an image for the site.
func (s *site) show(from *page, link *link, name string, info fs.FileInfo) (wrong string) {
	if !info.Mode().IsRegular() || !slices.Contains(pictures, strings.ToLower(path.Ext(name))) {
		return fmt.Sprintf("%s is not an image that browsers show", name)
	}
	s.images[name] = true
	*link.destination = []byte(between(from.output(), name))
	return ""
}

func withoutFragment(address *url.URL, name string) (wrong string) {
	if address.Fragment != "" {
		return fmt.Sprintf("the anchor #%s cannot be checked, as %s is no page; link the file alone", address.Fragment, name)
	}
	return ""
}

// point rewrites the links of a page to other pages, and checks their anchors.
func (s *site) point(from *page) {
	for _, link := range from.links {
		to := s.byPath[link.target]
		if to == nil {
			continue
		}
		address := ""
		if to != from {
			address = between(from.output(), to.output())
		}
		if link.fragment != "" {
			if !to.anchors[link.fragment] {
				s.report(from, link.line, "%s has no heading with the anchor #%s", to.path, link.fragment)
			}
			address += "#" + url.PathEscape(link.fragment)
		}
		if address == "" {
			address = path.Base(to.output()) // The page links itself.
		}
		*link.destination = []byte(address)
	}
}

// between returns the address of a file of the site, relative to a page of the site.
func between(page, file string) string {
	up := strings.Repeat("../", strings.Count(page, "/"))
	shared := path.Dir(page) + "/"
	if within, is := strings.CutPrefix(file, shared); is {
		return (&url.URL{Path: within}).EscapedPath()
	}
	return up + (&url.URL{Path: file}).EscapedPath()
}
