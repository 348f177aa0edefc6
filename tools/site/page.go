package main

import (
	"bytes"
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// markdown reads pages as GitHub does.
var markdown = goldmark.New(goldmark.WithExtensions(extension.GFM))

// page is one document.
type page struct {
	path     string // from the root of the checkout
	content  []byte
	tree     ast.Node
	title    string
	anchors  anchors
	links    []*link
	problems []problem
}

// link is a link or an image of a page.
type link struct {
	line        int
	destination *[]byte // as written, until the link is rewritten
	image       bool
	target      string // path from the root, if it is a page of the site
	fragment    string
}

// output returns the path of the page in the site.
func (p *page) output() string {
	if path.Base(p.path) == "README.md" {
		return path.Join(path.Dir(p.path), "index.html")
	}
	return strings.TrimSuffix(p.path, ".md") + ".html"
}

// parse reads a page: its title, its anchors and its links.
func parse(name string, content []byte) *page {
	p := &page{path: name, content: content, tree: markdown.Parser().Parse(text.NewReader(content)), anchors: anchors{}}
	_ = ast.Walk(p.tree, func(node ast.Node, entering bool) (ast.WalkStatus, error) { // It fails only if the function does.
		if entering {
			p.visit(node)
		}
		return ast.WalkContinue, nil
	})
	if p.title == "" {
		p.report(1, "the page has no title; start it with a line such as # Title")
	}
	return p
}

func (p *page) report(line int, what string) {
	p.problems = append(p.problems, problem{p.path, line, what})
}

func (p *page) visit(node ast.Node) {
	switch node := node.(type) {
	case *ast.Heading:
		words := p.words(node)
		if node.Level == 1 && p.title == "" {
			p.title = words
		}
		id := p.anchors.add(words)
		node.SetAttributeString("id", []byte(id))
	case *ast.Link:
		p.links = append(p.links, &link{line: p.line(node), destination: &node.Destination})
	case *ast.Image:
		p.links = append(p.links, &link{line: p.line(node), destination: &node.Destination, image: true})
	case *ast.RawHTML:
		p.checkHTML(node, node.Segments)
	case *ast.HTMLBlock:
		p.checkHTML(node, node.Lines())
	}
	if node.Type() == ast.TypeBlock && node.FirstChild() != nil && node.FirstChild().Type() == ast.TypeInline {
		p.checkText(node)
	}
}

// checkHTML refuses HTML: its links and anchors would not be checked. Comments are left out of the site.
func (p *page) checkHTML(node ast.Node, lines *text.Segments) {
	if !bytes.HasPrefix(bytes.TrimSpace(lines.Value(p.content)), []byte("<!--")) {
		p.report(p.line(node), "HTML is not rendered; write it as Markdown, or in code font")
	}
}

// unreadLink matches text that was meant as a link: a space in the address, or a reference without a definition.
var unreadLink = regexp.MustCompile(`(^|[^\\])\][(\[]`)

// checkText finds what Markdown does not take for a link, so that readers would see its brackets.
func (p *page) checkText(block ast.Node) {
	var plain []byte
	at := -1
	_ = ast.Walk(block, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		switch node := node.(type) {
		case *ast.CodeSpan, *ast.RawHTML:
			plain = append(plain, ' ')
			return ast.WalkSkipChildren, nil
		case *ast.Text:
			if entering {
				plain = append(plain, node.Segment.Value(p.content)...)
				if at < 0 && unreadLink.Match(plain) {
					at = node.Segment.Start
				}
			}
		}
		return ast.WalkContinue, nil
	})
	if at >= 0 {
		p.report(p.lineAt(at), fmt.Sprintf("the text %q is not a link; its address has a space, or its reference has no definition", unreadPart(plain)))
	}
}

// unreadPart returns the surroundings of the brackets that are not a link.
func unreadPart(plain []byte) string {
	at := unreadLink.FindIndex(plain)
	return string(plain[max(0, at[0]-20):min(len(plain), at[1]+20)])
}

// words returns the text of a heading as readers see it. GitHub makes anchors from it.
func (p *page) words(heading ast.Node) string {
	var words []byte
	_ = ast.Walk(heading, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch node := node.(type) {
		case *ast.Image:
			return ast.WalkSkipChildren, nil
		case *ast.AutoLink:
			words = append(words, node.Label(p.content)...)
		case *ast.Text:
			value := node.Segment.Value(p.content)
			if _, code := node.Parent().(*ast.CodeSpan); !code {
				value = util.ResolveEntityNames(util.ResolveNumericReferences(util.UnescapePunctuations(value)))
			}
			words = append(words, value...)
			if node.SoftLineBreak() {
				words = append(words, ' ')
			}
		}
		return ast.WalkContinue, nil
	})
	return string(words)
}

// line returns the line of a node, or of the nearest node around it that has one.
func (p *page) line(node ast.Node) int {
	for ; node != nil; node = node.Parent() {
		if at := node.Pos(); at >= 0 {
			return p.lineAt(at)
		}
	}
	return 1
}

func (p *page) lineAt(offset int) int { return 1 + bytes.Count(p.content[:offset], []byte("\n")) }
