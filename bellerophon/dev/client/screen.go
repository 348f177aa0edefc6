package client

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bellerophon-io/bellerophon/bellerophon/dev/contract"
	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
)

// Screen shows views as lines: each line once, when what it says has changed. On a terminal the state stays below
// them. Create it with NewScreen.
type Screen struct {
	out  *screen.Screen
	last map[string]string // the last line of each topic
}

// NewScreen returns a Screen.
func NewScreen(out *screen.Screen) *Screen { return &Screen{out: out, last: map[string]string{}} }

// titles are the states in the words of a person.
var titles = map[contract.State]string{
	contract.WaitDeployment:       "waiting for the pod",
	contract.WaitBindings:         "waiting for service bindings",
	contract.PodRunning:           "the pod runs",
	contract.FilesSynced:          "the files are synced",
	contract.BuildCommandExecuted: "the build is done",
	contract.RunCommandRunning:    "running",
}

// Show shows a view. It must not be called concurrently.
func (s *Screen) Show(view View) {
	if view.Problem != nil {
		s.line("problem", screen.Red, view.Problem.Error())
	} else {
		delete(s.last, "problem")
	}
	status := view.Status
	s.files(status.Sync.Problems)
	if status.Sync.Root != "" && (status.Sync.Sent > 0 || status.Sync.Removed > 0) {
		s.line("sync", screen.Dim, fmt.Sprintf("synced %s: %d sent, %d removed, %d files in the pod", cmp.Or(short(status.Sync.Root), "nothing"), status.Sync.Sent, status.Sync.Removed, status.Sync.Files))
	}
	s.command("build", status.Build)
	s.command("run", status.Run)
	ports := make([]string, len(status.Ports))
	for i, port := range status.Ports {
		ports[i] = fmt.Sprintf("%s http://%s", port.Name, port.Local)
	}
	if len(ports) > 0 {
		s.line("ports", screen.Green, "forwarding "+strings.Join(ports, ", "))
	}
	if status.State != "" {
		text := string(status.State) + ": " + titles[status.State]
		if status.Message != "" {
			text = string(status.State) + ": " + status.Message
		}
		s.line("state", colourOf(status), text)
	}
	s.out.Live(s.live(view))
}

// files shows the files that are not synced.
func (s *Screen) files(problems []string) {
	const topic = "file "
	maps.DeleteFunc(s.last, func(name, _ string) bool {
		file, is := strings.CutPrefix(name, topic)
		return is && !slices.Contains(problems, file)
	})
	for _, problem := range problems {
		s.line(topic+problem, screen.Yellow, problem)
	}
}

// command shows a command that has failed, once for each start.
func (s *Screen) command(topic string, command *contract.Command) {
	start := ""
	if command != nil && command.Outcome == contract.Failed {
		start = fmt.Sprint(command.Starts)
	}
	if s.last[topic+" start"] != start {
		delete(s.last, topic)
	}
	s.last[topic+" start"] = start
	if start == "" {
		return
	}
	text := fmt.Sprintf("%s failed with the exit code %d", command.Name, command.Exit)
	if command.Output != "" {
		text += "\n" + indent(command.Output)
	}
	s.line(topic, screen.Red, text)
}

// line shows a line, unless it is the last one of its topic.
func (s *Screen) line(topic string, colour screen.Colour, text string) {
	if s.last[topic] == text {
		return
	}
	s.last[topic] = text
	for line := range strings.SplitSeq(text, "\n") {
		s.out.Println(s.out.Paint(colour, screen.Clean(line)))
	}
}

// live returns the line that stays at the bottom of a terminal: the states, up to the current one.
func (s *Screen) live(view View) string {
	reached := slices.Index(contract.States(), view.Status.State)
	parts := make([]string, 0, len(titles))
	for i, state := range contract.States() {
		if i <= reached {
			parts = append(parts, s.out.Paint(screen.Green, string(state)))
		} else {
			parts = append(parts, s.out.Paint(screen.Dim, string(state)))
		}
	}
	text := strings.Join(parts, " › ")
	if view.Files.Root != "" && !view.IsInSync() {
		text += s.out.Paint(screen.Yellow, "  files changed")
	}
	return text
}

func colourOf(status contract.Status) screen.Colour {
	switch {
	case status.State == contract.RunCommandRunning:
		return screen.Green
	case status.Build != nil && status.Build.Outcome == contract.Failed:
		return screen.Red
	}
	return screen.Yellow
}

// short returns the beginning of a hash, which suffices to compare by eye.
func short(root string) string { return root[:min(len(root), 12)] }

func indent(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n  ")
}
