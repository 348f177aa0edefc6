package contender

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// toolsThatSay puts tools onto an otherwise empty PATH. Each tool runs its own shell script.
func toolsThatSay(t *testing.T, texts map[string]string) {
	t.Helper()
	directory := t.TempDir()
	for name, text := range texts {
		path := filepath.Join(directory, name)
		write(t, path, "#!/bin/sh\n"+text+"\n")
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", directory)
}

func named(t *testing.T, name string) Contender {
	t.Helper()
	found, err := Named(name)
	if err != nil {
		t.Fatal(err)
	}
	return found[0]
}

func TestAContenderSaysInOneLineWhatItsToolchainLacks(t *testing.T) {
	const (
		mvn17   = `printf '\033[1mApache Maven 3.8.7\033[m\nMaven home: /maven\nJava version: 17.0.15, vendor: Debian\n'`
		java17  = `echo 'openjdk version "17.0.15" 2025-04-15' >&2`
		javac17 = `echo 'javac 17.0.15'`
	)
	for name, test := range map[string]struct {
		contender string
		tools     map[string]string
		want      string
	}{
		"no Go":           {"ideal", nil, "ideal is left out: it needs go on PATH"},
		"Go":              {"ideal", map[string]string{"go": "exit 1"}, ""},
		"no Rust":         {"kube-rs", nil, "kube-rs is left out: it needs cargo and rustc on PATH"},
		"the oldest Rust": {"kube-rs", map[string]string{"cargo": "echo 'cargo 1.89.0 (c24e10642 2025-06-23)'", "rustc": "echo 'rustc 1.89.0 (29483883e 2025-08-04)'"}, ""},
		"a nightly Rust":  {"kube-rs", map[string]string{"cargo": "echo 'cargo 1.100.0-nightly (c24e10642 2027-06-23)'", "rustc": "echo 'rustc 1.100.0-nightly'"}, ""},
		"an old Rust": {"kube-rs", map[string]string{"cargo": "echo 'cargo 1.70.0 (ec8a8a0ca 2023-04-25)'", "rustc": "echo 'rustc 1.70.0'"},
			"kube-rs is left out: it needs cargo 1.89 or newer (this is 1.70.0) and rustc 1.89 or newer (this is 1.70.0)"},
		"no toolchain of Rust chosen": {"kube-rs", map[string]string{"cargo": "exit 1", "rustc": "echo 'rustc 1.95.0'"},
			"kube-rs is left out: it needs cargo 1.89 or newer (cargo --version fails: exit status 1)"},
		"something else of that name": {"kube-rs", map[string]string{"cargo": "echo freight 7", "rustc": "echo 'rustc 1.95.0'"},
			"kube-rs is left out: it needs cargo 1.89 or newer (cargo --version prints no version)"},
		"Java 17":         {"quarkus", map[string]string{"java": java17, "javac": javac17, "mvn": mvn17}, ""},
		"no JDK":          {"tutorial", map[string]string{"java": java17}, "tutorial is left out: it needs javac and mvn on PATH"},
		"a first release": {"tutorial", map[string]string{"java": `echo 'openjdk version "21" 2023-09-19' >&2`, "javac": "echo 'javac 21'", "mvn": mvn17}, ""},
		"options of Java": {"tutorial", map[string]string{"java": "echo 'Picked up JAVA_TOOL_OPTIONS: -Xmx8m' >&2; " + java17, "javac": javac17, "mvn": mvn17}, ""},
		"Java 8, and no Maven": {"quarkus", map[string]string{"java": `echo 'openjdk version "1.8.0_392"' >&2`, "javac": `echo 'javac 1.8.0_392' >&2`},
			"quarkus is left out: it needs mvn on PATH and java 17 or newer (this is 1.8.0) and javac 17 or newer (this is 1.8.0)"},
		"an old Java for Maven alone": {"quarkus", map[string]string{"java": java17, "javac": javac17, "mvn": "echo 'Apache Maven 3.9.11'; echo 'Java version: 11.0.27, vendor: Debian'"},
			"quarkus is left out: it needs mvn with Java 17 or newer (this is 11.0.27)"},
	} {
		t.Run(name, func(t *testing.T) {
			toolsThatSay(t, test.tools)
			if missing := named(t, test.contender).Missing(t.Context()); missing != test.want {
				t.Errorf("Missing() = %q, want %q", missing, test.want)
			}
		})
	}
}

func TestTheOldestToolsAreThoseOfTheBuildFiles(t *testing.T) {
	for file, want := range map[string]string{
		"kube-rs/Cargo.toml": `rust-version = "` + leastRust + `"`,
		"quarkus/pom.xml":    "<maven.compiler.release>" + leastJava + "</maven.compiler.release>",
		"tutorial/pom.xml":   "<maven.compiler.release>" + leastJava + "</maven.compiler.release>",
	} {
		content, err := os.ReadFile(filepath.Join("..", "peers", filepath.FromSlash(file)))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(content), want) {
			t.Errorf("%s does not contain %s; the table of tools has to match it", file, want)
		}
	}
}
