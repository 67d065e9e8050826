package lsp

// The parts of the language server protocol (3.17) that are used here.

type position struct {
	Line      int `json:"line"`
	Character int `json:"character"` // UTF-16 units
}

type textRange struct {
	Start position `json:"start"`
	End   position `json:"end"`
}

type location struct {
	URI   string    `json:"uri"`
	Range textRange `json:"range"`
}

type textDocument struct {
	URI        string `json:"uri"`
	LanguageID string `json:"languageId,omitempty"`
	Version    *int   `json:"version,omitempty"`
	Text       string `json:"text,omitempty"`
}

// documentParams are the parameters of every request for a document: each has
// some of them.
type documentParams struct {
	TextDocument textDocument `json:"textDocument"`
	Position     position     `json:"position"`
	Range        textRange    `json:"range"`
	NewName      string       `json:"newName"`
	Context      struct {
		IncludeDeclaration bool `json:"includeDeclaration"`
	} `json:"context"`
}

type changeParams struct {
	TextDocument   textDocument `json:"textDocument"`
	ContentChanges []struct {
		Range *textRange `json:"range"`
		Text  string     `json:"text"`
	} `json:"contentChanges"`
}

type diagnosticsParams struct {
	URI         string       `json:"uri"`
	Version     *int         `json:"version,omitempty"`
	Diagnostics []diagnostic `json:"diagnostics"`
}

type diagnostic struct {
	Range    textRange `json:"range"`
	Severity int       `json:"severity"` // 1 error, 2 warning
	Code     string    `json:"code,omitempty"`
	Source   string    `json:"source"`
	Message  string    `json:"message"`
}

type markup struct {
	Kind  string `json:"kind"`
	Value string `json:"value"`
}

type hover struct {
	Contents markup     `json:"contents"`
	Range    *textRange `json:"range,omitempty"`
}

type textEdit struct {
	Range   textRange `json:"range"`
	NewText string    `json:"newText"`
}

type workspaceEdit struct {
	Changes map[string][]textEdit `json:"changes"` // by URI
}

type codeAction struct {
	Title       string        `json:"title"`
	Kind        string        `json:"kind"`
	Diagnostics []diagnostic  `json:"diagnostics"`
	IsPreferred bool          `json:"isPreferred"`
	Edit        workspaceEdit `json:"edit"`
}

type documentSymbol struct {
	Name           string           `json:"name"`
	Detail         string           `json:"detail,omitempty"`
	Kind           int              `json:"kind"`
	Range          textRange        `json:"range"`
	SelectionRange textRange        `json:"selectionRange"`
	Children       []documentSymbol `json:"children,omitempty"`
}

// The kinds of document symbols that are used.
const (
	namespaceSymbol = 3
	propertySymbol  = 7
	functionSymbol  = 12
	variableSymbol  = 13
	constantSymbol  = 14
	structSymbol    = 23
)

type signatureHelp struct {
	Signatures      []signature `json:"signatures"`
	ActiveSignature int         `json:"activeSignature"`
	ActiveParameter int         `json:"activeParameter"`
}

type signature struct {
	Label         string          `json:"label"`
	Documentation *markup         `json:"documentation,omitempty"`
	Parameters    []parameterInfo `json:"parameters"`
}

type parameterInfo struct {
	Label [2]int `json:"label"` // from, to, in UTF-16 units of the signature's label
}

type inlayHint struct {
	Position     position `json:"position"`
	Label        string   `json:"label"`
	Kind         int      `json:"kind"` // 1 type, 2 parameter
	PaddingRight bool     `json:"paddingRight,omitempty"`
}

type semanticTokens struct {
	Data []int `json:"data"`
}

type completionItem struct {
	Label         string    `json:"label"`
	Kind          itemKind  `json:"kind,omitempty"`
	Detail        string    `json:"detail,omitempty"`
	Documentation *markup   `json:"documentation,omitempty"`
	TextEdit      *textEdit `json:"textEdit,omitempty"`
}

// itemKind is the kind of a completion, as the protocol numbers them.
type itemKind int

// The kinds of completions that are used.
const (
	functionItem  itemKind = 3
	fieldItem     itemKind = 5
	variableItem  itemKind = 6
	typeItem      itemKind = 7
	namespaceItem itemKind = 9
	optionItem    itemKind = 10
	keywordItem   itemKind = 14
	firstItem     itemKind = 15
	wordItem      itemKind = 20
)

type initializeResult struct {
	Capabilities capabilities `json:"capabilities"`
	ServerInfo   struct {
		Name    string `json:"name"`
		Version string `json:"version,omitempty"`
	} `json:"serverInfo"`
}

type capabilities struct {
	PositionEncoding string `json:"positionEncoding"`
	TextDocumentSync struct {
		OpenClose bool `json:"openClose"`
		Change    int  `json:"change"` // 2: only what changed
		Save      bool `json:"save"`
	} `json:"textDocumentSync"`
	HoverProvider      bool `json:"hoverProvider"`
	CompletionProvider struct {
		TriggerCharacters []string `json:"triggerCharacters"`
	} `json:"completionProvider"`
	SignatureHelpProvider struct {
		TriggerCharacters []string `json:"triggerCharacters"`
	} `json:"signatureHelpProvider"`
	DefinitionProvider     bool `json:"definitionProvider"`
	ReferencesProvider     bool `json:"referencesProvider"`
	DocumentSymbolProvider bool `json:"documentSymbolProvider"`
	CodeActionProvider     struct {
		CodeActionKinds []string `json:"codeActionKinds"`
	} `json:"codeActionProvider"`
	DocumentFormattingProvider bool `json:"documentFormattingProvider"`
	RenameProvider             struct {
		PrepareProvider bool `json:"prepareProvider"`
	} `json:"renameProvider"`
	InlayHintProvider      bool `json:"inlayHintProvider"`
	SemanticTokensProvider struct {
		Legend struct {
			TokenTypes     []string `json:"tokenTypes"`
			TokenModifiers []string `json:"tokenModifiers"`
		} `json:"legend"`
		Full bool `json:"full"`
	} `json:"semanticTokensProvider"`
}
