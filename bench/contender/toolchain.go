package contender

import (
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"golang.org/x/mod/semver"
)

// tool is a program that is needed to build or run a contender.
type tool struct {
	name string
	// least is the oldest version that works, as stated in the contender's build file, such as
	// 1.89. Empty means any version.
	least string
	// ask is the argument that makes the tool print its version. before is the text in front of
	// the number.
	ask, before string
	// of names the versioned program, if that is not the tool itself.
	of string
}

const (
	leastRust = "1.89" // rust-version in Cargo.toml
	leastJava = "17"   // maven.compiler.release in pom.xml
)

var (
	cargoTools = []tool{
		{name: "cargo", least: leastRust, ask: "--version", before: "cargo "},
		{name: "rustc", least: leastRust, ask: "--version", before: "rustc "},
	}
	// Java 8 has only -version.
	mavenTools = []tool{
		{name: "java", least: leastJava, ask: "-version", before: `version "`},
		{name: "javac", least: leastJava, ask: "-version", before: "javac "},
		// Maven uses the Java of JAVA_HOME, if that is set.
		{name: "mvn", least: leastJava, ask: "-version", before: "Java version: ", of: "mvn with Java"},
	}
)

// askLimit bounds the time for a tool to print its version. A JVM takes half a second.
const askLimit = 30 * time.Second

// lacks returns the reasons why tools are not usable, such as "cargo and rustc on PATH" and
// "javac 17 or newer (this is 11.0.2)".
func lacks(ctx context.Context, tools []tool) []string {
	var absent, unfit []string
	for _, t := range tools {
		if _, err := exec.LookPath(t.name); err != nil {
			absent = append(absent, t.name)
		} else if reason := t.unfit(ctx); reason != "" {
			unfit = append(unfit, reason)
		}
	}
	if len(absent) > 0 {
		unfit = append([]string{strings.Join(absent, " and ") + " on PATH"}, unfit...)
	}
	return unfit
}

// unfit returns the requirement that a tool does not meet, or an empty string.
func (t tool) unfit(ctx context.Context) string {
	if t.least == "" {
		return ""
	}
	wanted := cmp.Or(t.of, t.name) + " " + t.least + " or newer"
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	said, err := exec.CommandContext(ctx, t.name, t.ask).CombinedOutput()
	if err != nil {
		return fmt.Sprintf("%s (%s %s fails: %v)", wanted, t.name, t.ask, err)
	}
	number := regexp.MustCompile(`(?m)(?:^|\s)` + regexp.QuoteMeta(t.before) + `(\d+(?:\.\d+){0,2})`).FindSubmatch(said)
	if number == nil {
		return fmt.Sprintf("%s (%s %s prints no version)", wanted, t.name, t.ask)
	}
	if semver.Compare("v"+string(number[1]), "v"+t.least) < 0 {
		return fmt.Sprintf("%s (this is %s)", wanted, number[1])
	}
	return ""
}
