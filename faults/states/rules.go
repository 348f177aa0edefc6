package states

import (
	"hash/fnv"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
)

// mined holds the constants of CEL rules. A rule changes its mind near its constants.
type mined struct {
	numbers  []int64
	texts    []string
	patterns []string // the arguments of matches
}

var (
	ruleText    = regexp.MustCompile(`r?"(?:[^"\\]|\\.)*"|r?'(?:[^'\\]|\\.)*'`)
	ruleNumber  = regexp.MustCompile(`(?:^|[^\w.])(-?\d+)\b`)
	ruleMatches = regexp.MustCompile(`\.matches\(\s*$`)
)

// mine returns the constants of rules.
func mine(rules []string) (found mined) {
	for _, rule := range rules {
		for _, at := range ruleText.FindAllStringIndex(rule, -1) {
			text := unquoted(rule[at[0]:at[1]])
			if ruleMatches.MatchString(rule[:at[0]]) {
				found.patterns = append(found.patterns, text)
			} else {
				found.texts = append(found.texts, text)
			}
		}
		for _, match := range ruleNumber.FindAllStringSubmatch(ruleText.ReplaceAllString(rule, "''"), -1) {
			if number, err := strconv.ParseInt(match[1], 10, 64); err == nil {
				found.numbers = append(found.numbers, number)
			}
		}
	}
	return found
}

// unquoted returns the value of a CEL string, without the escapes that only CEL has.
func unquoted(literal string) string {
	if raw, is := strings.CutPrefix(literal, "r"); is {
		return raw[1 : len(raw)-1]
	}
	inner := literal[1 : len(literal)-1]
	if text, err := strconv.Unquote(`"` + strings.ReplaceAll(inner, `"`, `\"`) + `"`); err == nil {
		return text
	}
	return inner
}

// matching returns a short string that matches a pattern, and a longer one if there is one.
func matching(pattern string) (found []string) {
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil
	}
	matcher, err := regexp.Compile(pattern)
	if err != nil {
		return nil
	}
	for _, repeats := range []int{0, 2} {
		made := sample(parsed.Simplify(), repeats)
		if matcher.MatchString(made) && (len(found) == 0 || found[0] != made) {
			found = append(found, made)
		}
	}
	return found
}

// sample returns a string for a parsed pattern, with as many repetitions where they are optional.
func sample(parsed *syntax.Regexp, repeats int) string {
	var made strings.Builder
	times := 1
	switch parsed.Op {
	case syntax.OpLiteral:
		return string(parsed.Rune)
	case syntax.OpCharClass:
		return string(printable(parsed.Rune))
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return "x"
	case syntax.OpAlternate:
		return sample(parsed.Sub[0], repeats)
	case syntax.OpStar, syntax.OpQuest:
		times = min(repeats, 1)
		if parsed.Op == syntax.OpStar {
			times = repeats
		}
	case syntax.OpPlus:
		times = max(repeats, 1)
	case syntax.OpRepeat:
		times = parsed.Min
	}
	for range times {
		for _, inner := range parsed.Sub {
			made.WriteString(sample(inner, repeats))
		}
	}
	return made.String()
}

// printable returns a letter or digit of a class if there is one, and its first character otherwise.
func printable(ranges []rune) rune {
	for i := 0; i+1 < len(ranges); i += 2 {
		for _, preferred := range "axA1" {
			if ranges[i] <= preferred && preferred <= ranges[i+1] {
				return preferred
			}
		}
	}
	if len(ranges) == 0 {
		return 'x'
	}
	return ranges[0]
}

// formats holds a valid and an invalid string for each format that the API server checks.
var formats = map[string]struct{ valid, invalid string }{
	"date-time": {"2026-01-02T03:04:05Z", "yesterday"},
	"date":      {"2026-01-02", "2026-02-30"},
	"duration":  {"1m30s", "soon"},
	"email":     {"a@example.com", "a@"},
	"hostname":  {"a.example.com", "a_b!"},
	"ipv4":      {"10.0.0.1", "10.0.0.256"},
	"ipv6":      {"fd00::1", "fd00:::1"},
	"cidr":      {"10.0.0.0/8", "10.0.0.0/33"},
	"uri":       {"https://example.com/a", ":"},
	"uuid":      {"123e4567-e89b-42d3-a456-426614174000", "123e4567"},
	"byte":      {"YWJj", "!"},
	"mac":       {"00:00:5e:00:53:01", "00:00"},
}

func hashOf(text string) uint32 {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(text)) // Never fails.
	return sum.Sum32()
}
