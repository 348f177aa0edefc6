package report

import (
	_ "embed" // for the template
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/template"
)

//go:embed page/report.md.tmpl
var markdownText string

var markdown = template.Must(template.New("report.md").Funcs(template.FuncMap{"cell": cell}).Parse(markdownText))

// Markdown writes the summary as Markdown.
func (s Summary) Markdown(out io.Writer) error {
	if err := markdown.Execute(out, s); err != nil {
		return fmt.Errorf("writing the report as Markdown: %w", err)
	}
	return nil
}

// Repeat is the command that runs the same again, into another folder: in its own, it would
// go on with this run.
func (s Summary) Repeat() string {
	arguments := []string{"go run ./bench run"}
	for _, flag := range s.Run.Flags {
		if strings.ContainsAny(flag, " '\"$\\*?[]();&|<>`") {
			flag = "'" + strings.ReplaceAll(flag, "'", `'\''`) + "'"
		}
		arguments = append(arguments, flag)
	}
	return strings.Join(append(arguments, "--out=bin/again"), " ")
}

// WrittenRatio is the ratio with two decimals, or nothing where there is none.
func (r Row) WrittenRatio() string { return writtenRatio(r.Ratio) }

func writtenRatio(ratio float64) string {
	if ratio == 0 {
		return ""
	}
	return strconv.FormatFloat(ratio, 'f', 2, 64)
}

// Rounds is how many rounds a median is of, and how many of these are noisy.
func (r Row) Rounds() string {
	if r.Noisy == 0 {
		return strconv.Itoa(r.Measured.N)
	}
	return fmt.Sprintf("%d, %d noisy", r.Measured.N, r.Noisy)
}

// cell keeps a text in its cell of a table.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "\r", "", "<", `\<`).Replace(text)
}
