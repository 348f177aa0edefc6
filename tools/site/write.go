package main

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/yuin/goldmark/ast"
)

var (
	//go:embed layout.html
	layoutFile string
	//go:embed style.css
	style []byte

	layout = template.Must(template.New("layout").Parse(layoutFile))
)

// section is a part of the navigation: the pages of one folder.
type section struct {
	Title string
	Open  bool // whether the current page is in it
	Pages []entry
}

// entry is a page in the navigation.
type entry struct {
	Title, Address string
	Current        bool
}

// write writes the site to a folder, which must not hold anything else.
func (s *site) write(out string) error {
	existing, err := os.ReadDir(out)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading the folder of the site: %w", err)
	}
	if len(existing) > 0 {
		return fmt.Errorf("the folder %s is not empty; remove it, or choose another one with --out", out)
	}
	files := map[string][]byte{"style.css": style}
	for _, page := range s.pages {
		if files[page.output()], err = s.render(page); err != nil {
			return fmt.Errorf("rendering %s: %w", page.path, err)
		}
	}
	for name := range s.images {
		if files[name], err = fs.ReadFile(s.files, name); err != nil {
			return fmt.Errorf("reading an image: %w", err)
		}
	}
	for name, content := range files {
		target := filepath.Join(out, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return fmt.Errorf("making a folder of the site: %w", err)
		}
		if err := os.WriteFile(target, content, 0o644); err != nil {
			return fmt.Errorf("writing the site: %w", err)
		}
	}
	return nil
}

// render returns a page as HTML.
func (s *site) render(page *page) ([]byte, error) {
	linkHeadings(page.tree)
	var body, document bytes.Buffer
	if err := markdown.Renderer().Render(&body, page.content, page.tree); err != nil {
		return nil, err
	}
	err := layout.Execute(&document, map[string]any{
		"Title":    page.title,
		"Style":    between(page.output(), "style.css"),
		"Sections": s.navigation(page),
		"Source":   repository + "/blob/main/" + page.path,
		"Body":     template.HTML(body.String()), // The renderer escapes text, and no page has HTML.
	})
	return document.Bytes(), err
}

// linkHeadings gives each heading a link to itself.
func linkHeadings(tree ast.Node) {
	var headings []*ast.Heading
	_ = ast.Walk(tree, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if heading, is := node.(*ast.Heading); is && entering {
			headings = append(headings, heading)
		}
		return ast.WalkContinue, nil
	})
	for _, heading := range headings {
		id, _ := heading.AttributeString("id")
		link := ast.NewLink()
		link.Destination = append([]byte("#"), id.([]byte)...)
		link.SetAttributeString("class", []byte("anchor"))
		link.AppendChild(link, ast.NewString([]byte("#")))
		heading.AppendChild(heading, link)
	}
}

// navigation returns the sections in the order in which links lead to their pages, as seen from a page.
func (s *site) navigation(from *page) (sections []*section) {
	byTitle := map[string]*section{}
	for _, page := range s.pages {
		title := sectionOf(page.path)
		if byTitle[title] == nil {
			byTitle[title] = &section{Title: title, Open: title == sectionOf(from.path)}
			sections = append(sections, byTitle[title])
		}
		byTitle[title].Pages = append(byTitle[title].Pages, entry{page.title, between(from.output(), page.output()), page == from})
	}
	return sections
}

// sectionOf returns the section of a page: its folder within docs, or else the first folder of its path.
func sectionOf(name string) string {
	folders := strings.Split(path.Dir(name), "/")
	folder := folders[0]
	switch {
	case folder == ".":
		return "Bellerophon"
	case folder == "docs" && len(folders) > 1:
		folder = folders[1]
	}
	return strings.ToUpper(folder[:1]) + folder[1:]
}
