package sources

import (
	"bytes"
	"path"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// ignoreRule is a line of a .gitignore file, as git understands it. The glob itself is
// doublestar's.
type ignoreRule struct {
	glob     string
	negated  bool // takes back what rules before it ignore
	dirOnly  bool
	anchored bool // is for the path from the file's directory, not for names anywhere below
}

// parseIgnore reads the content of a .gitignore file. As in git, a line that is no valid
// pattern matches nothing.
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
			line += "/*" // To git that is what is inside, and not the directory.
		}
		rule.glob = withoutBraces(line)
		if rule.glob != "" {
			rules = append(rules, rule)
		}
	}
	return rules
}

// trimUnescapedSpaces removes the spaces at the end of a line that no backslash keeps.
func trimUnescapedSpaces(line string) string {
	trimmed := strings.TrimRight(line, " ")
	slashes := len(trimmed) - len(strings.TrimRight(trimmed, `\`))
	if slashes%2 == 1 && len(trimmed) < len(line) {
		return trimmed + " "
	}
	return trimmed
}

// withoutBraces escapes braces: doublestar has alternatives in them, and git has not.
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

// ignoredBy says what rules of a directory say of a path below it: whether it is ignored,
// and whether any rule is about it. The last rule that matches counts.
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
