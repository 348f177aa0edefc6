package sources

import (
	"bytes"
	"path"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// ignoreRule is one line of a .gitignore file, with git's meaning. Doublestar matches the glob.
type ignoreRule struct {
	glob     string
	negated  bool // un-ignores what earlier rules ignore
	dirOnly  bool
	anchored bool // matches the path from the file's directory, not names anywhere below it
}

// parseIgnore reads the content of a .gitignore file. As in git, an invalid pattern matches
// nothing.
func parseIgnore(content []byte) []ignoreRule {
	var rules []ignoreRule
	content = bytes.TrimPrefix(content, []byte("\xef\xbb\xbf"))
	for line := range strings.SplitSeq(string(content), "\n") {
		line = trimUnescapedSpaces(strings.TrimSuffix(line, "\r"))
		if line == "" || line[0] == '#' {
			continue
		}
		var rule ignoreRule
		line, rule.negated = strings.CutPrefix(line, "!")
		line, rule.dirOnly = strings.CutSuffix(line, "/")
		rule.anchored = strings.Contains(line, "/")
		line = strings.TrimPrefix(line, "/")
		if strings.HasSuffix(line, "/**") {
			line += "/*" // In git this matches what is inside, not the directory itself.
		}
		rule.glob = withoutBraces(line)
		if rule.glob != "" {
			rules = append(rules, rule)
		}
	}
	return rules
}

// trimUnescapedSpaces removes trailing spaces, except one escaped by a backslash.
func trimUnescapedSpaces(line string) string {
	trimmed := strings.TrimRight(line, " ")
	slashes := len(trimmed) - len(strings.TrimRight(trimmed, `\`))
	if slashes%2 == 1 && len(trimmed) < len(line) {
		return trimmed + " "
	}
	return trimmed
}

// withoutBraces escapes braces: doublestar treats them as alternatives, and git does not.
func withoutBraces(glob string) string {
	var b strings.Builder
	for i := 0; i < len(glob); i++ {
		switch {
		case glob[i] == '\\' && i+1 < len(glob):
			b.WriteByte('\\')
			i++
		case glob[i] == '{' || glob[i] == '}':
			b.WriteByte('\\')
		}
		b.WriteByte(glob[i])
	}
	return b.String()
}

// ignoredBy reports whether the rules of a directory ignore a path below it, and whether any rule
// matches the path. The last matching rule decides.
func ignoredBy(rules []ignoreRule, name string, dir bool) (ignored, decided bool) {
	for i := len(rules) - 1; i >= 0; i-- {
		rule := rules[i]
		if rule.dirOnly && !dir {
			continue
		}
		subject := name
		if !rule.anchored {
			subject = path.Base(name)
		}
		if match, err := doublestar.Match(rule.glob, subject); match && err == nil {
			return !rule.negated, true
		}
	}
	return false, false
}
