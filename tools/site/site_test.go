package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/yuin/goldmark/ast"
)

// checkout makes a checkout of files.
func checkout(pages map[string]string) fstest.MapFS {
	files := fstest.MapFS{}
	for name, content := range pages {
		files[name] = &fstest.MapFile{Data: []byte(content)}
	}
	return files
}

func TestTheLinksAnchorsAndImagesOfThisCheckoutAreWhole(t *testing.T) {
	out := filepath.Join(t.TempDir(), "site")
	pages, err := run(filepath.Join("..", ".."), out)
	if err != nil {
		t.Fatal(err)
	}
	if pages < 60 {
		t.Errorf("the site has %d pages; README.md leads to more than 60", pages)
	}
	for _, name := range []string{"index.html", "style.css", "docs/page-light.png", "docs/runbooks/index.html", "docs/decisions.html"} {
		if info, err := os.Stat(filepath.Join(out, name)); err != nil || info.Size() == 0 {
			t.Errorf("the site has no %s (%v)", name, err)
		}
	}
	home, err := os.ReadFile(filepath.Join(out, "index.html"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`href="ARCHITECTURE.html#the-picture"`, `src="docs/page-light.png"`, `<title>Bellerophon</title>`, `<h2 id="what-make-run-shows">`} {
		if !strings.Contains(string(home), want) {
			t.Errorf("index.html lacks %s", want)
		}
	}
}

func TestEachBrokenLinkIsFoundAtItsLine(t *testing.T) {
	for name, test := range map[string]struct{ readme, want string }{
		"a page that is gone":           {"\n[a](gone.md)", "README.md:3: there is no gone.md"},
		"the second of two":             {"\n[a](a.md)\nand [b](gone.md)", "README.md:4: there is no gone.md"},
		"in a list of a table's cell":   {"\n| a |\n|---|\n| [a](gone.md) |", "README.md:5: there is no gone.md"},
		"by a definition":               {"\n[a][b]\n\n[b]: gone.md", "README.md:3: there is no gone.md"},
		"a reference without its end":   {"\nsee [a][b]", `README.md:3: the text "see [a][b]" is not a link`},
		"a space in the address":        {"\n[a](a b.md)", `README.md:3: the text "[a](a b.md)" is not a link`},
		"an anchor of another page":     {"\n[a](a.md#gone)", "README.md:3: a.md has no heading with the anchor #gone"},
		"an anchor of this page":        {"\n[a](#gone)", "README.md:3: README.md has no heading with the anchor #gone"},
		"an anchor in other letters":    {"\n[a](a.md#Two-Words)", "README.md:3: a.md has no heading with the anchor #Two-Words"},
		"an anchor of a file":           {"\n[a](code.go#L3)", "README.md:3: the anchor #L3 cannot be checked"},
		"an anchor of a folder":         {"\n[a](code#x)", "README.md:3: the anchor #x cannot be checked"},
		"an image that is gone":         {"\n![a](gone.png)", "README.md:3: there is no gone.png"},
		"an image without words":        {"\n![](gone.png)", "README.md:3: there is no gone.png"},
		"an image in a link":            {"\n[![a](gone.png)](a.md)", "README.md:3: there is no gone.png"},
		"an image of the network":       {"\n![a](https://example.com/a.png)", "README.md:3: the image https://example.com/a.png needs the network"},
		"an image that is code":         {"\n![a](code.go)", "README.md:3: code.go is not an image"},
		"an image that is a folder":     {"\n![a](code)", "README.md:3: code is not an image"},
		"a script":                      {"\n[a](javascript:alert)", "README.md:3: the address javascript:alert is neither"},
		"an address without a host":     {"\n[a](https:///x)", "README.md:3: the address https:///x is neither"},
		"a host without a scheme":       {"\n[a](//example.com/x)", "README.md:3: the address //example.com/x is neither"},
		"out of the checkout":           {"\n[a](../x.md)", `README.md:3: the address "../x.md" leads out of the checkout`},
		"out of it, escaped":            {"\n[a](%2e%2e/x.md)", `README.md:3: the address "%2e%2e/x.md" leads out of the checkout`},
		"from the root":                 {"\n[a](/a.md)", `README.md:3: the address "/a.md" starts at the root`},
		"an escape that is none":        {"\n[a](%zz.md)", `README.md:3: the address "%zz.md" cannot be read`},
		"a query":                       {"\n[a](a.md?plain=1)", `README.md:3: the address "a.md?plain=1" has a query`},
		"nothing":                       {"\n[a]()", "README.md:3: the link has no address"},
		"an empty anchor":               {"\n[a](#)", "README.md:3: the link has no address"},
		"the address of the repository": {"\n[a](" + repository + "/blob/main/gone.go)", "README.md:3: there is no gone.go"},
		"its address, with an anchor":   {"\n<" + repository + "/blob/main/a.md>\n[a](" + repository + "/blob/main/a.md#gone)", "README.md:4: a.md has no heading with the anchor #gone"},
		"HTML in a line":                {"\na <a href='gone'>b</a>", "README.md:3: HTML is not rendered"},
		"HTML in a block":               {"\n<img src=x>", "README.md:3: HTML is not rendered"},
		"other letters in a name":       {"\n[a](A.md)", "README.md:3: there is no A.md"},
		"a second page of the same":     {"\n[a](x/README.md) [b](x/index.md)", "x/index.md:1: the page x/README.md becomes x/index.html too"},
		"a page without a title":        {"\n[a](x/plain.md)", "x/plain.md:1: the page has no title"},
		"a page in another":             {"\n[a](x/bad.md)", "x/bad.md:5: there is no x/a.md"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := build(checkout(map[string]string{
				"README.md": "# Title\n" + test.readme + "\n\n[all](a.md)", "a.md": "# A\n\n## Two words\n", "code.go": "package a", "code/b.go": "",
				"x/README.md": "# X", "x/index.md": "# X", "x/plain.md": "text", "x/bad.md": "# X\n\nfine:\n\n- [a](a.md), [b](../a.md)\n",
			}))
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Count(err.Error(), "\n") > 1 {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

func TestWhatOnlyLooksLikeABrokenLinkIsLeftAlone(t *testing.T) {
	for _, content := range []string{
		"`[a](gone.md)` and `[a][b]`", "    [a](gone.md)", "```\n[a](gone.md)\n```", `\[a\](gone.md)`, `\[a\]\[b\]`, "[a] (b)", "- [x] done",
		"<!-- [a](gone.md) -->", "a[0]", "[a](https://example.com/gone#x)", "[a](mailto:a@example.com)", "<https://example.com>", "`<img src=x>`",
		"[a](README.md) [a](./README.md#title) [a](#title)", "[a](code.go \"words\")", "[a](<a b.go>)",
	} {
		if _, err := build(checkout(map[string]string{"README.md": "# Title\n\n" + content + "\n", "code.go": "", "a b.go": ""})); err != nil {
			t.Errorf("%q: %v", content, err)
		}
	}
}

func TestAPageWithoutALinkToItIsFound(t *testing.T) {
	_, err := build(checkout(map[string]string{
		"README.md": "# T\n\n[a](docs/a.md)", "docs/a.md": "# A", "docs/deep/b.md": "# B", "OTHER.md": "# O", "docs/c.txt": "", "bench/c.md": "# C",
	}))
	want := "OTHER.md:1: no link leads here from README.md; link it from a page that readers find\n" +
		"docs/deep/b.md:1: no link leads here from README.md; link it from a page that readers find"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestHeadingsGetTheAnchorsOfGitHub(t *testing.T) {
	for heading, want := range map[string]string{
		"Two words":                          "two-words",
		"`make run`: what it *shows*":        "make-run-what-it-shows",
		"A [link](https://example.com) here": "a-link-here",
		"snake_case and-hyphen":              "snake_case-and-hyphen",
		"*Settled* → *Converged*":            "settled--converged",
		"Straße 2, č. 3!":                    "straße-2-č-3",
		"`a<b>` & c &amp; d":                 "ab--c--d",
		"Why?":                               "why",
		"1.2 x":                              "12-x",
	} {
		page := parse("a.md", []byte("# T\n\n## "+heading+"\n"))
		if !page.anchors[want] {
			t.Errorf("%q: got %q, want %q", heading, slices.Sorted(maps.Keys(page.anchors)), want)
		}
	}
	page := parse("a.md", []byte("# A\n## A\n## A-1\n## A\nSet\next\n---\n"))
	if got := slices.Sorted(maps.Keys(page.anchors)); !slices.Equal(got, []string{"a", "a-1", "a-1-1", "a-2", "set-ext"}) {
		t.Errorf("the anchors of equal headings are %q", got)
	}
}

// Anchors are unique, so no browser takes a reader to another heading of the same text.
func TestNoTwoHeadingsOfAPageShareAnAnchor(t *testing.T) {
	seen := map[string]bool{}
	page := parse("a.md", []byte("# A-1\n## A\n## A\n## A 1\n## A\n## !\n## ?\n"))
	_ = ast.Walk(page.tree, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if heading, is := node.(*ast.Heading); is && entering {
			id, _ := heading.AttributeString("id")
			if name := string(id.([]byte)); seen[name] {
				t.Errorf("two headings have the anchor %q", name)
			} else {
				seen[name] = true
			}
		}
		return ast.WalkContinue, nil
	})
	if len(seen) != 7 {
		t.Errorf("7 headings have %d anchors", len(seen))
	}
}

// written builds a site into a folder, and returns its files.
func written(t *testing.T, files fstest.MapFS) map[string]string {
	t.Helper()
	site, err := build(files)
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "site")
	if err := site.write(out); err != nil {
		t.Fatal(err)
	}
	contents := map[string]string{}
	for _, name := range []string{"index.html", "docs/a.html", "docs/deep/index.html", "docs/deep/p.svg", "style.css"} {
		content, err := os.ReadFile(filepath.Join(out, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		contents[name] = string(content)
	}
	return contents
}

func TestPagesLinkEachOtherAsFilesWithoutANetworkOrAScript(t *testing.T) {
	files := written(t, checkout(map[string]string{
		"README.md":           "# Bellerophon\n\n[a](docs/a.md#more--less) [code](code.go) [folder](code) <!-- x -->",
		"docs/a.md":           "# A `<b>` & c\n\n## More & less\n\n[up](../README.md) [down](deep) ![p](deep/p.svg) [deep](deep/README.md#d)",
		"docs/deep/README.md": "# D\n\n[a](../a.md) [d](#d)", "docs/deep/p.svg": "<svg/>", "code.go": "", "code/x.go": "",
	}))
	for name, parts := range map[string][]string{
		"index.html": {
			`href="docs/a.html#more--less"`, `href="` + repository + `/blob/main/code.go"`, `href="` + repository + `/tree/main/code"`,
			`<link rel="stylesheet" href="style.css">`, `<a href="index.html" aria-current="page">Bellerophon</a>`, `<a href="docs/deep/index.html">D</a>`,
		},
		"docs/a.html": {
			`<title>A &lt;b&gt; &amp; c · Bellerophon</title>`, `<h2 id="more--less">`, `href="../index.html"`, `href="deep/index.html"`, `src="deep/p.svg"`,
			`href="deep/index.html#d"`, `href="../style.css"`, `<summary>Docs</summary>`,
		},
		"docs/deep/index.html": {`href="../../docs/a.html"`, `href="#d"`, `href="../../style.css"`, `<summary>Deep</summary>`},
		"docs/deep/p.svg":      {"<svg/>"},
		"style.css":            {"prefers-color-scheme: dark"},
	} {
		for _, part := range parts {
			if !strings.Contains(files[name], part) {
				t.Errorf("%s lacks %s:\n%s", name, part, files[name])
			}
		}
	}
	for name, content := range files {
		for _, part := range []string{"<script", "@import", `src="http`, `rel="stylesheet" href="http`, "url("} {
			if strings.Contains(content, part) {
				t.Errorf("%s has %s", name, part)
			}
		}
	}
}

func TestASiteIsNotWrittenOverOtherFiles(t *testing.T) {
	site, err := build(checkout(map[string]string{"README.md": "# T"}))
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	if err := os.WriteFile(filepath.Join(out, "mine"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := site.write(out); err == nil || !strings.Contains(err.Error(), "is not empty") {
		t.Errorf("got %v, want an error about a folder that is not empty", err)
	}
}
