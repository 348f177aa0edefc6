package ranks

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var wordsOf = flag.String("words", "", "check the words of this folder alone, with the folders in it")

// longestSentence is the number of words above which a sentence needs a second reading.
const longestSentence = 25

// dialect lists phrases that hide the subject of a sentence, or that are not the field's words.
// Each names what to write instead.
var dialect = []struct {
	phrase  *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`(?i)\btell(s|ing)? of\b|\btold of\b`), "report, emit or carry"},
	{regexp.MustCompile(`(?i)\b(is|are|was|were|be|been) told\b`), "receives, is emitted or is reported"},
	{regexp.MustCompile(`(?i)\bkn(ow|ows|ew|own) of\b`), "has, sees or holds"},
	{regexp.MustCompile(`(?i)\bon (its|the|their) way\b`), "in flight or pending"},
	{regexp.MustCompile(`(?i)\bby now\b|\bby then\b`), "so far"},
	{regexp.MustCompile(`(?i)\b(that|those) of\b`), "repeat the noun"},
	{regexp.MustCompile(`(?i)\bof (which|whom)\b`), "start a new sentence"},
	{regexp.MustCompile(`(?i)\bthose (that|who|which)\b`), "name the things"},
	{regexp.MustCompile(`(?i)\bwhat [^.,;:]{0,40}\bcomes? to\b`), "name the result"},
	{regexp.MustCompile(`(?i)\bwhoever\b|\bnobody\b|\bsomebody\b|\banybody\b`), "name the reader, the writer or the caller"},
	{regexp.MustCompile(`(?i)\bsays? of\b|\bsaid of\b`), "reports whether"},
	{regexp.MustCompile(`(?i)\bby turns\b|\blikewise\b|\bbesides\b`), "alternately, also, or another sentence"},
}

// TestTheWordsAreTheFieldsOwn holds the mechanical part of how the project writes: comments,
// messages and pages.
func TestTheWordsAreTheFieldsOwn(t *testing.T) {
	for _, violation := range wordViolations(moduleFiles(t)) {
		t.Error(violation)
	}
	for _, page := range pages(t) {
		for _, violation := range pageViolations(page) {
			t.Error(violation)
		}
	}
}

// wordViolations checks the comments and messages of Go files.
func wordViolations(sources []source) (found []string) {
	positions := token.NewFileSet()
	for _, source := range sources {
		if !strings.HasPrefix(source.path, *wordsOf) || strings.HasPrefix(source.path, "internal/ranks/") {
			continue
		}
		file, err := parser.ParseFile(positions, source.path, source.content, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil || ast.IsGenerated(file) {
			continue
		}
		report := func(at token.Pos, rule string, details ...any) {
			position := positions.Position(at)
			found = append(found, fmt.Sprintf("%s:%d: ", position.Filename, position.Line)+fmt.Sprintf(rule, details...))
		}
		for _, group := range file.Comments {
			for _, wrong := range proseViolations(group.Text()) {
				report(group.Pos(), "%s", wrong)
			}
		}
		if isTest(source.path) {
			continue
		}
		checkDocs(file, report)
		ast.Inspect(file, func(node ast.Node) bool {
			if literal, ok := node.(*ast.BasicLit); ok && literal.Kind == token.STRING {
				if text, err := strconv.Unquote(literal.Value); err == nil && strings.Contains(text, " ") {
					for _, wrong := range dialectViolations(text) {
						report(literal.Pos(), "in a message: %s", wrong)
					}
				}
			}
			return true
		})
	}
	return found
}

// verb matches the verb of a function's doc comment.
var verb = regexp.MustCompile(`^[a-z]+s$`)

// checkDocs checks that a doc comment starts with the name. After the name of a function, a verb must
// follow.
func checkDocs(file *ast.File, report func(at token.Pos, rule string, details ...any)) {
	for _, declaration := range file.Decls {
		switch declared := declaration.(type) {
		case *ast.FuncDecl:
			words := strings.Fields(declared.Doc.Text())
			if len(words) == 0 {
				continue
			}
			switch {
			case words[0] != declared.Name.Name:
				report(declared.Doc.Pos(), "the doc comment of %s starts with %q; start with the name and a verb", declared.Name.Name, words[0])
			case len(words) < 2 || !verb.MatchString(words[1]) || words[1] == "is" || words[1] == "was" || words[1] == "says":
				report(declared.Doc.Pos(), "the doc comment of %s has no verb after the name; say what the function does: returns, reports whether, creates", declared.Name.Name)
			}
		case *ast.GenDecl:
			for _, spec := range declared.Specs {
				typed, ok := spec.(*ast.TypeSpec)
				if !ok || !typed.Name.IsExported() {
					continue
				}
				doc := typed.Doc
				if doc == nil && len(declared.Specs) == 1 {
					doc = declared.Doc
				}
				words := strings.Fields(doc.Text())
				if len(words) > 0 && words[0] != typed.Name.Name && (len(words) < 2 || words[1] != typed.Name.Name) {
					report(doc.Pos(), "the doc comment of %s starts with %q; start with the name", typed.Name.Name, words[0])
				}
			}
		}
	}
}

// pages returns the documents, by their paths from the root. What programs write is left out.
func pages(t *testing.T) (pages []source) {
	t.Helper()
	root := filepath.Join("..", "..")
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/guides/*.md", "docs/names/*.md", "docs/runbooks/*.md", "controller/*/README.md", "controller/examples/*/README.md", "bench/*.md", "bench/*/README.md", "bench/peers/*/README.md", "charts/*/README.md"} {
		names, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			content, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			relative, err := filepath.Rel(root, name)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(filepath.ToSlash(relative), *wordsOf) {
				pages = append(pages, source{filepath.ToSlash(relative), string(content)})
			}
		}
	}
	return pages
}

// pageViolations checks the prose of a page: no code, no tables.
func pageViolations(page source) (found []string) {
	var prose strings.Builder
	fenced := false
	for line := range strings.Lines(page.content) {
		trimmed := strings.TrimSpace(line)
		if strings.HasPrefix(trimmed, "```") {
			fenced = !fenced
			continue
		}
		if fenced || strings.HasPrefix(line, "    ") && !strings.HasPrefix(trimmed, "- ") || strings.HasPrefix(trimmed, "|") || strings.HasPrefix(trimmed, "#") {
			prose.WriteString("\n")
			continue
		}
		if strings.HasPrefix(trimmed, "- ") || strings.HasPrefix(trimmed, "* ") {
			prose.WriteString("\n")
		}
		prose.WriteString(line)
	}
	for _, wrong := range proseViolations(prose.String()) {
		found = append(found, page.path+": "+wrong)
	}
	return found
}

func proseViolations(text string) (found []string) {
	found = dialectViolations(text)
	for _, sentence := range sentences(text) {
		if words := len(strings.Fields(sentence)); words > longestSentence {
			found = append(found, fmt.Sprintf("a sentence of %d words; split it: %q", words, sentence))
		}
	}
	return found
}

func dialectViolations(text string) (found []string) {
	joined := strings.Join(strings.Fields(text), " ")
	for _, each := range dialect {
		if at := each.phrase.FindStringIndex(joined); at != nil {
			found = append(found, fmt.Sprintf("%q; write: %s", joined[max(0, at[0]-20):min(len(joined), at[1]+20)], each.instead))
		}
	}
	return found
}

var (
	sentenceEnd = regexp.MustCompile(`[.!?:;]["')\]*_]*\s|\n\s*\n|\n\s*[-*] |\n\t|\n {4}`)
	link        = regexp.MustCompile(`\]\([^)]*\)`)
)

// sentences splits prose. Lines of code and of lists stand for themselves.
func sentences(text string) []string {
	return sentenceEnd.Split(link.ReplaceAllString(text, "]"), -1)
}

func TestAnUnclearSentenceIsFound(t *testing.T) {
	for name, test := range map[string]struct {
		code string
		want string // a part of the only violation; empty: none
	}{
		"plain words":               {"// Get returns the object.\nfunc Get() {}", ""},
		"no name":                   {"// Returns the object.\nfunc Get() {}", "start with the name and a verb"},
		"no verb":                   {"// Get is the object.\nfunc Get() {}", "has no verb"},
		"a method without a verb":   {"// Get the object.\nfunc (a A) Get() {}", "has no verb"},
		"a type by another name":    {"// Something that happened.\ntype Event struct{}", "start with the name"},
		"a type with an article":    {"// An Event is one observation.\ntype Event struct{}", ""},
		"a subject that is hidden":  {"// Get returns a, and that of b.\nfunc Get() {}", "repeat the noun"},
		"the phrase over two lines": {"// Get returns what is on\n// its way.\nfunc Get() {}", "in flight"},
		"a message":                 {"var err = `the list of whom`", "in a message"},
		"a long sentence":           {"// Get returns" + strings.Repeat(" word", 30) + ".\nfunc Get() {}", "32 words"},
		"two sentences":             {"// Get returns" + strings.Repeat(" word", 20) + ".\n// It" + strings.Repeat(" word", 20) + ".\nfunc Get() {}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			found := wordViolations([]source{{"a.go", "package a\n\n" + test.code + "\n"}})
			if test.want == "" && len(found) > 0 || test.want != "" && (len(found) != 1 || !strings.Contains(found[0], test.want)) {
				t.Errorf("got %q, want one with %q", found, test.want)
			}
		})
	}
}
