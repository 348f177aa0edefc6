// Makes the site of the documents. It is a module of its own so that its dependency stays
// out of Bellerophon's.
module github.com/bellerophon-io/bellerophon/tools/site

go 1.26.0

require github.com/yuin/goldmark v1.8.7
