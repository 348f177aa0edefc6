package contender

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestTheContainerHasTheOptionsOfTheDockerfileAndRunsBesideItsArchive(t *testing.T) {
	command := Facts("quarkus-container").recipe.command("program", Settings{MemoryLimit: 1000})
	want := "java -XX:MaxRAMPercentage=80.0 -XX:+UseParallelGC -XX:MinHeapFreeRatio=10 -XX:MaxHeapFreeRatio=20 -XX:GCTimeRatio=4 " +
		"-XX:AdaptiveSizePolicyWeight=90 -XX:+ExitOnOutOfMemoryError -Djava.util.logging.manager=org.jboss.logmanager.LogManager " +
		"-Xmx1000 -XX:SharedArchiveFile=app-cds.jsa -jar quarkus-run.jar"
	if got := strings.Join(command.Args, " "); got != want || command.Dir != filepath.Join("program", "quarkus-app") {
		t.Errorf("it runs %q in %s, want %q", got, command.Dir, want)
	}
	command = Facts("quarkus").recipe.command("program", Settings{})
	if got, want := strings.Join(command.Args, " "), "java -jar "+filepath.Join("program", "quarkus-app", "quarkus-run.jar"); got != want || command.Dir != "" {
		t.Errorf("without a container: it runs %q in %q, want %q in this folder", got, command.Dir, want)
	}
}

// tools puts shell scripts on PATH, in front of the real tools.
func tools(t *testing.T, scripts map[string]string) {
	t.Helper()
	folder := t.TempDir()
	for name, script := range scripts {
		write(t, filepath.Join(folder, name), "#!/bin/sh\n"+script)
		if err := os.Chmod(filepath.Join(folder, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", folder+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// archived returns a recipe whose build makes an archive, with a builder for it.
func archived(t *testing.T) (mavenProgram, *builder) {
	t.Helper()
	b := &builder{root: t.TempDir(), cache: t.TempDir(), log: io.Discard}
	write(t, filepath.Join(b.root, "peer", "pom.xml"), "")
	return mavenProgram{
		folder: "peer", arguments: []string{"-Darchive"}, artifacts: []string{"app"}, jar: "app/run.jar", archive: "classes.jsa",
	}, b
}

const archivingMaven = `test "$*" = "-q -B package -DskipTests -Darchive" || exit 1
mkdir -p target/app && echo jar >target/app/run.jar && echo classes >target/app/classes.jsa && touch -d 2001-02-03T04:05:06Z target/app/run.jar`

func TestAnArchiveOfClassesIsCheckedAgainstTheJarsAsTheyAreKept(t *testing.T) {
	tools(t, map[string]string{"mvn": archivingMaven, "java": `
case "$*" in -version) echo 17.0.1 >&2; exit;; esac
test "$*" = "-Xshare:on -XX:SharedArchiveFile=classes.jsa -cp run.jar -version" && test -e classes.jsa`})
	recipe, b := archived(t)
	first, err := recipe.build(t.Context(), b, "peer")
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(first, "app", "run.jar"))
	if want := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC); err != nil || !info.ModTime().Equal(want) {
		t.Errorf("the kept jar is of %v, want the time of the built one, %v: %v", info.ModTime(), want, err)
	}
	tools(t, map[string]string{"java": `test "$*" != -version || echo 17.0.2 >&2`})
	if second, err := recipe.build(t.Context(), b, "peer"); err != nil || second == first {
		t.Errorf("with another Java, the build is %s: %v; want another build than %s", second, err, first)
	}
}

func TestAnArchiveOfClassesThatJavaCannotUseFailsTheBuild(t *testing.T) {
	tools(t, map[string]string{"mvn": archivingMaven, "java": `test "$*" = -version || { echo "not a valid archive"; exit 1; }`})
	recipe, b := archived(t)
	_, err := recipe.build(t.Context(), b, "peer")
	if err == nil || !strings.Contains(err.Error(), "not a valid archive") || !strings.Contains(err.Error(), "JAVA_HOME") {
		t.Errorf("the build ends with %v, want an error with the words of java and a way out", err)
	}
}
