package report

import (
	_ "embed" // for the template
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"github.com/bellerophon-io/bellerophon/bench/contender"
	"github.com/bellerophon-io/bellerophon/bench/rundir"
)

//go:embed page/several.md.tmpl
var severalText string

var severalPage = template.Must(template.Must(markdown.Clone()).New("several.md").Parse(severalText))

// several holds several runs of one program, and what they give as one.
type several struct {
	Summary
	Parts []part
	Older []older
}

// part is one of these runs.
type part struct {
	Name                    string // of the folder
	Report                  string // the address of its report, from the page
	Run                     rundir.Run
	Rounds, Complete, Noisy int
	Gauged                  bool // an ideal client ran before rounds; otherwise none can be marked as noisy
	dir                     string
	taking                  []string // the contenders with rounds
}

// Scenarios returns the scenarios of the run as a list.
func (p part) Scenarios() string { return strings.Join(p.Run.Scenarios, "; ") }

// Contenders returns the contenders with rounds as a list.
func (p part) Contenders() string { return strings.Join(p.taking, ", ") }

// member is a contender that took part in one of the runs.
type member struct {
	Name, Version, Form string
	Settings            rundir.Settings
}

// Members returns the contenders with rounds, in the order of the reports.
func (s several) Members() (members []member) {
	var names []string
	for _, part := range s.Parts {
		names = append(names, part.taking...)
	}
	slices.SortFunc(names, contender.Compare)
	for _, name := range slices.Compact(names) {
		members = append(members, member{name, s.Run.Versions[name], contender.Facts(name).Form.String(), settingsOf(s.Run, name, "")})
	}
	return members
}

// WriteTogether writes the heat map and the goals of several runs into a Markdown file. The runs count as one, as for the
// goals command. The page links to the report.md of each run, which must exist.
func WriteTogether(file string, dirs []string) (Written, error) {
	made, err := severalOf(file, dirs)
	if err != nil {
		return Written{}, err
	}
	return Written{Files: []string{file}, Summary: &made.Summary}, save(file, made.write)
}

// severalOf reads several runs, for a page in a file. The order of the folders does not matter.
func severalOf(file string, dirs []string) (several, error) {
	made := several{}
	for _, dir := range dirs {
		one, err := partOf(file, dir)
		if err != nil {
			return several{}, err
		}
		made.Parts = append(made.Parts, one)
	}
	slices.SortStableFunc(made.Parts, func(a, b part) int { return a.Run.Started.Compare(b.Run.Started) })
	var sorted []string
	for _, part := range made.Parts {
		sorted = append(sorted, part.dir)
	}
	all, err := readAll(sorted)
	if err != nil {
		return several{}, err
	}
	made.Summary = Summarize(all.run, all.rounds)
	for _, left := range all.older {
		left.Dir = filepath.Base(left.Dir)
		made.Older = append(made.Older, left)
	}
	return made, nil
}

// partOf describes the run of a folder.
func partOf(file, dir string) (part, error) {
	run, rounds, err := read(dir)
	if err != nil {
		return part{}, err
	}
	report := filepath.Join(dir, "report.md")
	if _, err := os.Stat(report); errors.Is(err, fs.ErrNotExist) {
		return part{}, fmt.Errorf("link to %s: it does not exist; make it with go run ./bench report %s", report, dir)
	}
	address, err := addressOf(report, file)
	if err != nil {
		return part{}, fmt.Errorf("link to %s: %w", report, err)
	}
	made := part{dir: dir, Name: filepath.Base(dir), Report: address, Run: run, Rounds: len(rounds), Complete: counting(rounds), Gauged: isGauged(rounds)}
	for _, round := range rounds {
		if round.IsComplete() && round.Noise() != "" {
			made.Noisy++
		}
		made.taking = append(made.taking, round.Contender)
	}
	slices.SortFunc(made.taking, contender.Compare)
	made.taking = slices.Compact(made.taking)
	return made, nil
}

// addressOf returns the address of a file in a link of another file.
func addressOf(file, from string) (string, error) {
	to, err := filepath.Abs(file)
	if err != nil {
		return "", fmt.Errorf("find %s: %w", file, err)
	}
	base, err := filepath.Abs(filepath.Dir(from))
	if err != nil {
		return "", fmt.Errorf("find %s: %w", from, err)
	}
	relative, err := filepath.Rel(base, to)
	if err != nil {
		return "", fmt.Errorf("find a way from %s to %s: %w", base, to, err)
	}
	return filepath.ToSlash(relative), nil
}

// write writes the page as Markdown.
func (s several) write(out io.Writer) error {
	if err := severalPage.Execute(out, s); err != nil {
		return fmt.Errorf("write the page of several runs: %w", err)
	}
	return nil
}
