package harness

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/rundir"
	"github.com/bellerophon-io/bellerophon/bench/scenario"
)

// begin writes run.json. If the folder already has one, its flags must be the same, except that the
// contenders may differ and the turns may be more; begin then updates it.
func (r *run) begin(skipped map[string]string) error {
	described := rundir.Run{
		Started: time.Now(), Machine: scenario.Machine(), Versions: map[string]string{"Go": runtime.Version()}, Resync: map[string]string{}, Notes: r.notes(),
		Builds: map[string]string{}, Skipped: skipped, Turns: r.Turns, Until: r.until, Flags: r.flags(),
	}
	described.Machine["etcd"] = "does not sync its data to disk"
	for _, c := range r.contenders {
		described.Contenders = append(described.Contenders, c.Name)
		r.addFacts(&described, c)
		described.Versions[c.Name] = r.programs[c.Name].Version
		described.Builds[c.Name] = r.identityOf(c.Name)
	}
	for _, s := range r.scenarios {
		described.Scenarios = append(described.Scenarios, s.Name+" "+s.String())
	}
	before, err := rundir.ReadRun(r.Dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return rundir.WriteRun(r.Dir, described)
	case err != nil:
		return err
	case !slices.Equal(lasting(before.Flags), lasting(described.Flags)) || r.Turns < before.Turns:
		return fmt.Errorf("--out %s has a run with other flags, %q; to resume it, only --contenders may differ, and --turns may be higher; or give another folder",
			r.Dir, before.Flags)
	}
	if before.Until != (rundir.Until{}) && r.Turns > before.Turns {
		return fmt.Errorf("--turns is %d, but the run in %s ends after %d turns at the latest: its rule was fixed before it started; give another folder",
			r.Turns, r.Dir, before.Turns)
	}
	before.Turns = r.Turns
	before.Skipped = alsoSkipped(before.Skipped, skipped, described.Contenders)
	for _, note := range described.Notes {
		if !slices.Contains(before.Notes, note) {
			before.Notes = append(before.Notes, note)
		}
	}
	for _, c := range r.contenders {
		name := c.Name
		if was := before.Builds[name]; was != "" && was != described.Builds[name] {
			return fmt.Errorf("--out %s has rounds of another build of %s, %s, and medians would mix both builds; give another folder, or leave the contender out with --contenders",
				r.Dir, name, before.Versions[name])
		}
		if !slices.Contains(before.Contenders, name) {
			before.Contenders = append(before.Contenders, name)
			before.Versions[name], before.Builds[name] = described.Versions[name], described.Builds[name]
			r.addFacts(&before, c)
		}
	}
	before.Flags = described.Flags
	if r.Options.Contenders != "all" {
		before.Flags[0] = contendersFlag + strings.Join(before.Contenders, ",")
	}
	return rundir.WriteRun(r.Dir, before)
}

// alsoSkipped returns the contenders that are left out: the earlier ones that do not take part now,
// and the current ones.
func alsoSkipped(before, now map[string]string, there []string) map[string]string {
	skipped := map[string]string{}
	maps.Copy(skipped, before)
	for _, name := range there {
		delete(skipped, name)
	}
	maps.Copy(skipped, now)
	return skipped
}

const (
	contendersFlag = "--contenders="
	turnsFlag      = "--turns="
)

// lasting returns the flags that must stay the same when a run resumes.
func lasting(flags []string) []string {
	return slices.DeleteFunc(slices.Clone(flags), func(flag string) bool {
		return strings.HasPrefix(flag, contendersFlag) || strings.HasPrefix(flag, turnsFlag)
	})
}

// flags returns the flags that repeat the run, the contenders first.
func (r *run) flags() []string {
	flags := []string{contendersFlag + r.Options.Contenders, "--scenarios=" + r.Options.Scenarios, fmt.Sprint(turnsFlag, r.Turns), fmt.Sprint("--ideal=", r.Ideal),
		fmt.Sprint("--tolerance=", r.Tolerance)}
	if r.Until != "" {
		flags = append(flags, "--until="+r.Until)
	}
	if r.Workers != "" {
		flags = append(flags, "--workers="+r.Workers)
	}
	if r.Memory != "" {
		flags = append(flags, "--memory="+r.Memory)
	}
	if r.SweepTurns != defaultSweepTurns {
		flags = append(flags, fmt.Sprint("--sweep-turns=", r.SweepTurns))
	}
	if r.Conformance == skipConformance {
		flags = append(flags, "--conformance="+skipConformance)
	}
	if r.Cores == ownCores {
		flags = append(flags, "--cores="+ownCores)
	}
	if r.Cgroup != "" {
		flags = append(flags, "--cgroup="+r.Cgroup)
	}
	if r.Full {
		flags = append(flags, "--full")
	}
	if r.Warm {
		flags = append(flags, "--warm")
	}
	return flags
}
